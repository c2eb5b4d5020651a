"""The full world: several relations over places, countries and their divisions."""
