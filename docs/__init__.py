"""Documentation; its examples are code that tests run."""
