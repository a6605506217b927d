"""Keeps a virtual environment of Python 3.13 with Microsoft's worker library."""

import sys
from pathlib import Path

from tools.local import bootstrap
from tools.local.python313 import WANTED, find

ROOT = Path(__file__).resolve().parents[3]
VENV = ".venv-3.13"


def python_with_library() -> Path | None:
    """Returns a Python that can import the library: this one, or that of the cached environment; None without a 3.13.
    Raises bootstrap.SetupError if the environment cannot be made."""
    if sys.version_info[:2] >= WANTED:
        return Path(sys.executable)
    interpreter = find()
    if interpreter is None:
        return None

    def install(root: Path) -> None:
        bootstrap.run_quietly([str(interpreter), "-m", "venv", "--clear", str(root / VENV)], root)
        pip = [str(root / VENV / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
        more = root / VENV / "requirements.txt"
        more.write_text(
            bootstrap.locked(
                ROOT, "azure-functions-runtime", "azurefunctions-extensions-base", "uvicorn", "click", "h11"
            )
        )
        bootstrap.run_quietly([*pip, *bootstrap.LOCKED, "-r", "requirements.txt", "-r", str(more)], root)

    step = bootstrap.Step(
        title="Python 3.13 with Microsoft's worker library",
        inputs=bootstrap.PYTHON_LOCKS,
        stamp=f"{VENV}/.installed",
        proof=f"{VENV}/bin/python",
        install=install,
    )
    bootstrap.set_up(ROOT, [step])
    return ROOT / VENV / "bin" / "python"
