"""What a deployment is to be, in one file of its operator, and what a change of it would do (infra/README.md)."""
