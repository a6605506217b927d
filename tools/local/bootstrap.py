"""What `./dev` does first: set up .venv and tools/node_modules, then hand over to `tools.local.cli` inside .venv.

Runs on a bare Python 3.11, so it uses the standard library only. A stamp file beside what was installed holds a hash of
the inputs, such as the lock file. While the hash is the same, nothing is installed. A file lock keeps two runs from
setting up at once.
"""

import fcntl
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NODE_MAJOR = 18
"""The oldest major version of Node.js that Azurite and the broker's AMQP library run on."""


STAMP = ".stamp"
"""The file beside what was installed, with a hash of its inputs."""
COMPILE_ANEW = "PYTHONDONTWRITEBYTECODE"
"""Variable with which each process would compile what it imports: the hundreds that tests start, and each host."""
PYTHON_LOCKS = ("requirements.txt", "requirements/dev.txt")
"""Lock files of the packages in .venv: the second includes the first (tools/local/locks.py)."""
LOCKED = ("--require-hashes", "--no-deps", "--only-binary=:all:")
"""How pip installs a lock file: only the listed files, and only built ones (wheels), so that no code of a package runs
during the installation."""


class SetupError(Exception):
    """Something is missing on this machine, or an installation failed; the message says what to do."""


@dataclass(frozen=True)
class Step:
    """One installation: what asks for it, what proves it, and how it is done."""

    title: str
    inputs: tuple[str, ...]
    stamp: str
    proof: str
    install: Callable[[Path], None]
    after: tuple[str, ...] = ()
    """Stamps of the steps that this step waits for. Other steps run in parallel with it."""

    def digest(self, root: Path) -> str:
        """Returns a hash of everything that the installation depends on."""
        digest = hashlib.sha256()
        for name in self.inputs:
            digest.update(name.encode() + b"\0" + (root / name).read_bytes())
        return digest.hexdigest()

    def is_done(self, root: Path) -> bool:
        """Returns whether what is installed is what the inputs ask for."""
        stamp = root / self.stamp
        return (
            (root / self.proof).exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == self.digest(root)
        )

    def run(self, root: Path) -> None:
        """Install; the stamp goes first and comes back last, so that a broken run is done again."""
        (root / self.stamp).unlink(missing_ok=True)
        self.install(root)
        (root / self.stamp).write_text(self.digest(root), encoding="utf-8")


def set_up(root: Path, steps: Sequence[Step]) -> None:
    """Runs the steps that are not done; waits for another process that is at it. Raises SetupError."""
    if all(step.is_done(root) for step in steps):
        return
    lock_path = root / ".local" / "setup.lock"
    lock_path.parent.mkdir(exist_ok=True)
    with lock_path.open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another ./dev is setting up; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        todo = [step for step in steps if not step.is_done(root)]
        _run_all(root, todo)


def _run_all(root: Path, todo: Sequence[Step]) -> None:
    """Runs each step once the steps before it have ended. Then raises the error of the first step that failed."""
    with ThreadPoolExecutor(len(todo) or 1) as threads:
        running: dict[str, Future[None]] = {}
        for number, step in enumerate(todo, 1):
            before = [running[stamp] for stamp in step.after if stamp in running]
            running[step.stamp] = threads.submit(_run_after, before, f"[{number}/{len(todo)}] {step.title}", step, root)
    for each in running.values():
        each.result()


def _run_after(before: Sequence[Future[None]], title: str, step: Step, root: Path) -> None:
    for each in before:
        each.result()
    say(title)
    step.run(root)


def install_python_packages(root: Path) -> None:
    """Makes .venv, unless there is one with a fitting Python, and installs the locked packages into it."""
    venv = root / ".venv"
    if not _is_usable(venv / "bin" / "python"):
        missing = [module for module in ("venv", "ensurepip") if importlib.util.find_spec(module) is None]
        if missing:
            raise SetupError(
                f"this Python ({sys.executable}) lacks the module {' and '.join(missing)}.\n"
                + how_to_install(
                    f"python{sys.version_info.major}.{sys.version_info.minor}-venv",
                    "a Python with venv and pip: https://www.python.org/downloads/",
                )
            )
        if not is_profile_guided():
            say(f"Python {python_build()}: 10 to 25 % slower than Debian's or python.org's, also in what is measured.")
        run_quietly([sys.executable, "-m", "venv", "--clear", str(venv)], root)
    _install_locked(venv, root)


def _install_locked(venv: Path, root: Path) -> None:
    """Installs with uv, which takes a tenth of pip's time; with pip where uv may not be used, or fails.

    Nothing is compiled ahead: Python compiles a module at its first import, and two thirds of these are never imported.
    """
    pip = [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    told = subprocess.run([*pip, "config", "list"], capture_output=True, encoding="utf-8", check=False).stdout
    if not asks_another_index(told):
        (venv / "uv.txt").write_text(locked(root, "uv"), encoding="utf-8")
        uv = [str(venv / "bin" / "uv"), "pip", "install", "--python", str(venv / "bin" / "python")]
        try:
            run_quietly([*pip, "install", "--no-compile", *LOCKED, "-r", str(venv / "uv.txt")], root)
            run_quietly([*uv, "--system-certs", *LOCKED, "-r", "requirements/dev.txt"], root)
            return
        except (SetupError, OSError) as error:
            say(f"uv cannot install them ({str(error).splitlines()[-1]}); pip does, which takes a minute or two.")
    run_quietly([*pip, "install", "--no-compile", *LOCKED, "-r", "requirements/dev.txt"], root)


def locked(root: Path, *names: str) -> str:
    """Returns these packages' entries in the locks of development, with their hashes, as a requirements file for pip.
    Their dependencies have to be named as well."""
    text = "".join((root / each).read_text(encoding="utf-8") for each in PYTHON_LOCKS)
    blocks = re.findall(r"^([a-z0-9-]+)(==.*(?:\n    --hash=.*)+\n)", text, re.MULTILINE)
    assert set(names) <= {name for name, _ in blocks}
    return "".join(name + rest for name, rest in blocks if name in names)


def asks_another_index(configuration: str) -> bool:
    """Returns whether pip is configured to use another index than PyPI, or a proxy. uv does not read pip's
    configuration."""
    return re.search(r"^\S+\.(index-url|extra-index-url|no-index|proxy)=", configuration, re.MULTILINE) is not None


def is_profile_guided() -> bool:
    """Returns whether this Python was compiled with profiles of how it is used. Debian's Python is, by a target of its
    own: it has neither the option nor the compiler's flag. A build with the flag but without the option is not."""
    asked = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    return asked or not sysconfig.get_config_var("PGO_PROF_USE_FLAG")


def python_build() -> str:
    """Returns the version of this Python, and whether it was built without profiles, which makes it slower."""
    return platform.python_version() + ("" if is_profile_guided() else ", built without profile-guided optimisation")


def install_node_packages(root: Path) -> None:
    """Installs the locked npm packages into tools/node_modules."""
    check_node()
    run_quietly(["npm", "ci", "--no-audit", "--no-fund"], root / "tools")


def install_console_libraries(root: Path) -> None:
    """Copies the console's libraries out of tools/node_modules."""
    run_quietly([str(root / ".venv" / "bin" / "python"), "-m", "tools.local.console_vendor"], root)


def check_node() -> None:
    """Raises SetupError, saying how to get it, if there is no Node.js that is new enough, or no npm."""
    for tool in ("node", "npm"):
        require(tool)
    text = subprocess.run(["node", "--version"], capture_output=True, encoding="utf-8", check=False).stdout
    version = re.match(r"v(\d+)\.", text)
    if not version or int(version[1]) < NODE_MAJOR:
        raise SetupError(f"node is {text.strip() or 'broken'}; {NODE_MAJOR} or newer is needed.\n{_node_hint()}")


def require(tool: str) -> None:
    """Raises SetupError, saying how to get it, if the program is not on the PATH."""
    if shutil.which(tool) is None:
        raise SetupError(f"{tool} is not on the PATH.\n{_node_hint()}")


def how_to_install(debian_package: str, otherwise: str) -> str:
    """Returns the command that installs it, where one is known."""
    if shutil.which("apt-get"):
        return f"Install it with: sudo apt-get install {debian_package}"
    return f"Install {otherwise}"


def run_quietly(command: Sequence[str], root: Path) -> None:
    """Runs a long command, showing for how long and its latest line of output; more only if it fails (SetupError)."""
    lines: list[str] = []
    with subprocess.Popen(
        list(command), cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace"
    ) as process:
        assert process.stdout is not None
        over = threading.Event()
        clock = threading.Thread(target=_show_progress, args=(lines, over), daemon=True)
        clock.start()
        try:
            lines.extend(line.rstrip() for line in process.stdout)
        finally:
            over.set()
            clock.join()
    if process.returncode != 0:
        text = "\n".join(_unreachable(lines) or [*lines[-40:], *_registry_hint(lines)])
        raise SetupError(f"this command ended with exit code {process.returncode}: {' '.join(command)}\n{text}")


def _show_progress(lines: list[str], over: threading.Event) -> None:
    """Shows progress: on a terminal one line that is replaced each second, elsewhere a new one every ten seconds."""
    started = time.monotonic()
    live = sys.stderr.isatty()
    while not over.wait(1 if live else 10):
        seconds, latest = time.monotonic() - started, lines[-1].strip() if lines else ""
        if live:
            text = f"{seconds:3.0f} s  {latest}"[: shutil.get_terminal_size().columns - 1]
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
        else:
            say(f"    {seconds:3.0f} s  {latest[:100]}")
    if live:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def say(text: str) -> None:
    """Progress goes to standard error, so that the output of a command stays clean."""
    print(f"{text}\n", end="", file=sys.stderr, flush=True)  # in one piece: two installations may speak at once


def _is_usable(python: Path) -> bool:
    """Returns whether this is a Python that the project supports (the test that `dev` makes as well), with pip."""
    test = "import pip, sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))"
    return python.exists() and subprocess.run([python, "-c", test], capture_output=True, check=False).returncode == 0


def _unreachable(lines: Sequence[str]) -> list[str]:
    """Returns what to print instead of the output when there was no connection, as all else in the output follows from
    that."""
    for pattern, variables in _NO_CONNECTION:
        reasons = [line.strip() for line in lines if re.search(pattern, line)]
        if reasons:
            return [
                reasons[-1],
                f"The package index could not be reached: is there a network? {variables} say which index is asked; "
                "behind a proxy, set HTTPS_PROXY.",
            ]
    return []


def _registry_hint(lines: Sequence[str]) -> list[str]:
    """Returns what to look at when packages could not be had."""
    for pattern, variables in _NO_PACKAGE:
        if any(re.search(pattern, line) for line in lines):
            return [
                f"The package index lacks a package, or could not be reached. {variables} say which one is asked; "
                "behind a proxy, set HTTPS_PROXY."
            ]
    return []


_PIP = "PIP_INDEX_URL and pip's own configuration"
_NPM = "npm_config_registry and .npmrc"
_NO_CONNECTION = (
    (r"connection broken by|Could not fetch URL|^ERROR: (HTTPSConnectionPool|Could not install .*OSError)", _PIP),
    (r"^npm (error|ERR!) code (ECONN|ENOTFOUND|ENETUNREACH|ETIMEDOUT|EAI_AGAIN|FETCH_ERROR|ERR_SOCKET)", _NPM),
)
"""What pip and npm print when they got no answer, and the variables that choose where they ask."""

_NO_PACKAGE = (
    (r"^ERROR: No matching distribution found|ResolutionImpossible", _PIP),
    (r"^npm (error|ERR!) code E404", _NPM),
)
"""Texts that pip and npm print when they found no package, and the variables that choose where they ask."""


def _node_hint() -> str:
    return how_to_install("nodejs npm", f"Node.js {NODE_MAJOR} or newer, with npm: https://nodejs.org/")


STEPS = (
    Step(
        title="Python packages into .venv (half a minute)",
        inputs=PYTHON_LOCKS,
        stamp=f".venv/{STAMP}",
        proof=".venv/bin/python",
        install=install_python_packages,
    ),
    Step(
        title="npm packages into tools/node_modules (half a minute)",
        inputs=("tools/package.json", "tools/package-lock.json", "tools/.npmrc"),
        stamp=f"tools/node_modules/{STAMP}",
        proof="tools/node_modules/azurite",
        install=install_node_packages,
    ),
    Step(
        title="Libraries of the console into console/vendor",
        inputs=("tools/package-lock.json", "tools/local/console_vendor.py"),
        stamp=f"console/vendor/{STAMP}",
        proof="console/vendor/preact.js",
        install=install_console_libraries,
        after=(f".venv/{STAMP}", f"tools/node_modules/{STAMP}"),
    ),
)


def main() -> None:
    """Sets up, then becomes `tools.local.cli`, with the same process id, so that signals reach it."""
    try:
        require("node")
        if not all(step.is_done(ROOT) for step in STEPS):
            check_node()  # before minutes are spent on Python's packages
        set_up(ROOT, STEPS)
    except SetupError as error:
        say(f"./dev: {error}")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    python = str(ROOT / ".venv" / "bin" / "python")
    os.chdir(ROOT)
    os.environ.pop(COMPILE_ANEW, None)
    os.execv(python, [python, "-m", "tools.local.cli", *sys.argv[1:]])  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
