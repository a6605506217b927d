"""Check that imports point down the layers: `python -m local.check_imports`. pyproject.toml names the layers."""

import sys

from importlinter.cli import lint_imports


def main() -> None:
    """Exits with 1 if an import points up or in a circle, and names it."""
    sys.exit(lint_imports(no_cache=True, no_logo=True))


if __name__ == "__main__":
    main()
