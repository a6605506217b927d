"""Triggers: parse, authorise, call one use-case, respond."""
