"""`./dev bench`: loads a deployment, and says how fast it was and what it cost (docs/performance.md)."""
