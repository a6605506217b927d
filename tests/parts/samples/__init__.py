"""What releases have stored, kept for good: every later version must read it (README.md)."""
