"""Measurements and models, run by hand: `python -m bench.<name>`."""
