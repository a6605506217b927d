"""Simulates weeks of a deployment, one after the other, to see whether anything stays or grows."""
