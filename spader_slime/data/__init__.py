"""Public data sets to rows that slime and the embedded host train on; checks, figures, splits."""
