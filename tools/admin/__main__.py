"""`./dev admin` starts this; what it can do is in its --help."""

from __future__ import annotations

from tools.admin.cli import main

if __name__ == "__main__":
    main()
