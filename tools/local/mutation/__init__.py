"""Mutation testing: `./dev mutate`."""
