"""Cost, capacity and lateness of a deployment from design 6's budgets: the tables of docs/scaling.md."""
