"""`python -m tools.local.check_console`: format, lint and types of the console and the local host's page."""

import subprocess
import sys

from tools.local.state import ROOT

FOLDERS = ("console", "tools/local/host/sign_in")
STYLE = ("--config", "console/.prettierrc.json", "--ignore-path", "console/.prettierignore")
STRICT = ("--deny-warnings", "--report-unused-disable-directives-severity", "error")
CHECKS = (
    ("prettier", *STYLE, "--check", "--log-level", "warn", *FOLDERS),
    ("oxlint", "--config", "tools/oxlint.json", *STRICT, *FOLDERS),
    ("tsc", "--project", "console/tsconfig.json"),
)


def main() -> int:
    """Returns the exit code of the first check that fails, or 0."""
    for name, *arguments in CHECKS:
        code = subprocess.run(
            [str(ROOT / "tools" / "node_modules" / ".bin" / name), *arguments], cwd=ROOT, check=False
        ).returncode
        if code != 0:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
