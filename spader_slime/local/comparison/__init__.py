"""`spader-slime compare`: arms side by side over seeds and regimes, at equal budget."""
