"""Format, lint and types of the console: `python -m local.check_console`."""

import subprocess
import sys

from local.state import ROOT

CHECKS = (
    ("prettier", "--ignore-path", "console/.prettierignore", "--check", "--log-level", "warn", "console"),
    ("eslint", "--config", "console/eslint.config.mjs", "console"),
    ("tsc", "--project", "console/tsconfig.json"),
)


def main() -> int:
    """The exit code of the first check that fails, or 0."""
    for name, *arguments in CHECKS:
        code = subprocess.run(
            [str(ROOT / "node_modules" / ".bin" / name), *arguments], cwd=ROOT, check=False
        ).returncode
        if code != 0:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
