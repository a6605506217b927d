"""The local stack: development and tests only. Nothing in shared/ or functions/ imports it."""
