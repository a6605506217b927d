"""./dev before there is anything to import: the set-up, done once, and what it says when something is missing."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.local import bootstrap
from tools.local.bootstrap import SetupError, Step, run_quietly, set_up

ROOT = Path(__file__).resolve().parents[2]


def _step(root: Path, runs: list[str], title: str = "packages") -> Step:
    (root / "lock").write_text("1")

    def install(where: Path) -> None:
        runs.append(title)
        (where / "out").mkdir(exist_ok=True)
        (where / "out" / "tool").touch()

    return Step(title=title, inputs=("lock",), stamp="out/.stamp", proof="out/tool", install=install)


def test_a_step_runs_once_and_again_when_its_inputs_change_or_its_output_has_gone(tmp_path: Path) -> None:
    runs: list[str] = []
    step = _step(tmp_path, runs)
    set_up(tmp_path, [step])
    set_up(tmp_path, [step])
    assert len(runs) == 1
    (tmp_path / "lock").write_text("2")
    set_up(tmp_path, [step])
    assert len(runs) == 2
    (tmp_path / "out" / "tool").unlink()
    set_up(tmp_path, [step])
    assert len(runs) == 3


def test_a_step_that_failed_is_done_again(tmp_path: Path) -> None:
    runs: list[str] = []
    good = _step(tmp_path, runs)
    set_up(tmp_path, [good])
    (tmp_path / "lock").write_text("2")

    def fail(_: Path) -> None:
        raise SetupError("no network")

    bad = Step(title="bad", inputs=good.inputs, stamp=good.stamp, proof=good.proof, install=fail)
    with pytest.raises(SetupError, match="no network"):
        set_up(tmp_path, [bad])
    (tmp_path / "lock").write_text("1")
    assert not good.is_done(tmp_path)


def test_two_runs_at_once_install_once(tmp_path: Path) -> None:
    runs: list[str] = []
    quick = _step(tmp_path, runs)
    entered, go_on = threading.Event(), threading.Event()

    def slow(where: Path) -> None:
        entered.set()
        assert go_on.wait(10)
        quick.install(where)

    step = Step(title="slow", inputs=quick.inputs, stamp=quick.stamp, proof=quick.proof, install=slow)
    threads = [threading.Thread(target=set_up, args=(tmp_path, [step])) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert entered.wait(10)
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert len(runs) == 1


def test_what_does_not_wait_for_each_other_is_installed_at_once(tmp_path: Path) -> None:
    ended: list[str] = []
    both = threading.Barrier(2)

    def install(title: str) -> Callable[[Path], None]:
        def at_once(where: Path) -> None:
            if title != "last":
                both.wait(10)
            (where / title).mkdir()
            ended.append(title)

        return at_once

    def step(title: str, *after: str) -> Step:
        return Step(title, ("lock",), f"{title}/.stamp", title, install(title), after)

    (tmp_path / "lock").write_text("1")
    set_up(tmp_path, [step("python"), step("npm"), step("last", "python/.stamp", "npm/.stamp")])
    assert sorted(ended[:2]) == ["npm", "python"]
    assert ended[2:] == ["last"]


@pytest.mark.parametrize(
    ("configuration", "another"),
    [
        ("", False),
        (":env:.cert='/a.pem'\n:env:.find-links='/wheels'\n", False),
        ("global.timeout='60'\nglobal.index-url='https://packages.example.com/simple'\n", True),
        (":env:.index-url='https://packages.example.com/simple'\n", True),
        ("install.proxy='http://proxy.example.com'\n", True),
    ],
)
def test_where_pip_is_told_to_ask_another_index_it_installs_itself(configuration: str, another: bool) -> None:
    assert bootstrap.asks_another_index(configuration) == another


_PROGRAM = """#!/bin/sh
echo "$(basename "$0") $*" >> PATH/ran
case "$*" in FAILS) echo no route >&2; exit 1 ;; esac
"""


@pytest.mark.parametrize(
    ("fails", "last"), [("nothing", "uv pip"), ("'pip install '*", "python -m pip"), ("*uv.txt", "python -m pip")]
)
def test_packages_are_installed_by_uv_and_by_pip_where_uv_cannot(
    tmp_path: Path, fails: str, last: str, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = tmp_path / "venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "uv"):
        (programs / name).write_text(_PROGRAM.replace("PATH", str(tmp_path)).replace("FAILS", fails))
        (programs / name).chmod(0o755)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    bootstrap._install_locked(tmp_path / "venv", tmp_path)
    ran = (tmp_path / "ran").read_text().splitlines()
    assert ran[-1].startswith(last)
    assert ran[-1].endswith("-r requirements/dev.txt")
    assert ("uv cannot install them (no route)" in capsys.readouterr().err) == last.startswith("python")


def test_a_command_that_fails_is_shown_with_its_output(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"exit code 3(?s:.*)resolver says no"):
        run_quietly([sys.executable, "-c", "print('resolver says no'); raise SystemExit(3)"], tmp_path)


@pytest.mark.parametrize(
    ("last_words", "variable"),
    [
        ("ERROR: No matching distribution found for typer", "PIP_INDEX_URL"),
        ("ERROR: ResolutionImpossible: for help visit the documentation", "PIP_INDEX_URL"),
        ("npm ERR! code E404", "npm_config_registry"),
    ],
)
def test_unavailable_packages_are_distinguished_from_other_failures(
    tmp_path: Path, last_words: str, variable: str
) -> None:
    def said(text: str) -> str:
        with pytest.raises(SetupError) as caught:
            run_quietly([sys.executable, "-c", f"raise SystemExit({text!r})"], tmp_path)
        return str(caught.value)

    assert said(last_words).splitlines()[-1].startswith("The package index lacks a package, or could not be reached.")
    assert variable in said(last_words)
    assert "index" not in said("error: a compiler is needed")


@pytest.mark.parametrize(
    ("reason", "variable"),
    [
        (
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError: Temporary failure in "
            "name resolution': /simple/typer/",
            "PIP_INDEX_URL",
        ),
        ("npm error code EAI_AGAIN", "npm_config_registry"),
    ],
)
def test_without_a_network_that_is_said_and_nothing_else(tmp_path: Path, reason: str, variable: str) -> None:
    output = f"{reason}\nERROR: Cannot install typer\nERROR: ResolutionImpossible: for help visit the documentation"
    (tmp_path / "pip.py").write_text(f"raise SystemExit({output!r})")
    with pytest.raises(SetupError) as caught:
        run_quietly([sys.executable, "pip.py"], tmp_path)
    said = str(caught.value).splitlines()
    assert said[1] == reason
    assert "ResolutionImpossible" not in said
    assert len(said) == 3
    assert said[-1].startswith("The package index could not be reached: is there a network?")
    assert variable in said[-1]


class _Seconds:
    """A clock on which each wait takes as long as it may, and the event that comes after so many of them."""

    def __init__(self, waits: int) -> None:
        self._waits = waits
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    def wait(self, timeout: float) -> bool:
        self._now += timeout
        self._waits -= 1
        return self._waits < 0


@pytest.mark.parametrize(
    ("is_terminal", "shown"),
    [
        (True, ["", "  1 s  resolving", "  2 s  resolving", ""]),
        (False, ["     10 s  resolving\n     20 s  resolving\n"]),
    ],
)
def test_a_long_installation_shows_how_long_it_has_taken(
    is_terminal: bool, shown: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the command says nothing; on a terminal the line is replaced, and goes when the command has ended."""
    seconds = _Seconds(waits=2)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setattr("tools.local.bootstrap.time", seconds)
    bootstrap._show_progress(["resolving"], seconds)  # type: ignore[arg-type]
    assert capfd.readouterr().err.split("\r\033[K") == shown


def test_node_is_looked_at_before_minutes_are_spent_on_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (("node", "v16.20.0"), ("npm", "8")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    ran: list[str] = []
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    monkeypatch.setattr(bootstrap, "STEPS", (_step(tmp_path, ran),))
    with pytest.raises(SystemExit):
        bootstrap.main()
    assert "18 or newer is needed" in capsys.readouterr().err
    assert ran == []


def test_the_stamps_cover_every_lock_file() -> None:
    names = {name for step in bootstrap.STEPS for name in step.inputs}
    assert names == {
        "requirements/dev.txt",
        "tools/package.json",
        "tools/package-lock.json",
        "tools/.npmrc",
        "tools/local/console_vendor.py",
    }
    assert all((ROOT / name).exists() for name in names)


def _bin(folder: Path, *tools: str) -> str:
    """A PATH with these programs only."""
    folder.mkdir()
    for tool in tools:
        found = shutil.which(tool)
        assert found is not None
        (folder / tool).symlink_to(found)
    return str(folder)


def _dev(path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [shutil.which("sh") or "/bin/sh", str(ROOT / "dev"), *arguments],
        env={"PATH": path, "HOME": os.environ.get("HOME", "/")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _python(folder: Path) -> str:
    """A PATH entry whose python3 is this interpreter."""
    (folder / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (folder / "python3").chmod(0o755)
    return str(folder)


def test_no_node_on_the_path(tmp_path: Path) -> None:
    _bin(tmp_path / "bin", "dirname", "sh")
    result = _dev(_python(tmp_path / "bin"), "down")
    assert result.returncode == 1
    assert "node is not on the PATH" in result.stderr
    assert "Install" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("with_apt", [True, False])
def test_no_fitting_python_on_the_path(tmp_path: Path, with_apt: bool) -> None:
    folder = Path(_bin(tmp_path / "bin", "dirname", "sh"))
    (folder / "python3").write_text("#!/bin/sh\nexit 1\n")
    (folder / "python3").chmod(0o755)
    if with_apt:
        (folder / "apt-get").symlink_to("/bin/true")
    result = _dev(str(folder), "down")
    assert result.returncode == 1
    assert "Python 3.11, 3.12 or 3.13 is needed" in result.stderr
    assert ("sudo apt-get install python3 python3-venv" in result.stderr) == with_apt


def test_without_venv_the_package_to_install_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda tool: f"/usr/bin/{tool}")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    with pytest.raises(SetupError, match=rf"venv and ensurepip(?s:.*)apt-get install python{version}-venv"):
        bootstrap.install_python_packages(tmp_path)


def test_an_old_node_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("node", "v16.20.0"), ("npm", "8")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match=r"node is v16\.20\.0; 18 or newer is needed"):
        bootstrap.install_node_packages(tmp_path)


def test_a_repeat_run_starts_at_once() -> None:
    if not all(step.is_done(ROOT) for step in bootstrap.STEPS):
        pytest.skip("this checkout was not set up by ./dev")
    result = subprocess.run([str(ROOT / "dev"), "--help"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert {"demo", "up", "down", "env", "logs", "test"} <= set(result.stdout.split())


@pytest.mark.parametrize(
    ("options", "flag", "is_guided"),
    [
        ("'--enable-shared' '--enable-optimizations'", "-fprofile-use", True),
        ("'--enable-shared'", "-fprofile-use", False),
        ("'--enable-shared'", "", True),
        (None, None, True),
    ],
    ids=["asked for", "not asked for", "by Debian", "unknown"],
)
def test_a_python_that_was_built_without_profiles_is_told(
    monkeypatch: pytest.MonkeyPatch, options: str | None, flag: str | None, is_guided: bool
) -> None:
    variables = {"CONFIG_ARGS": options, "PGO_PROF_USE_FLAG": flag}
    monkeypatch.setattr("sysconfig.get_config_var", variables.get)
    assert bootstrap.is_profile_guided() == is_guided
    assert ("without" in bootstrap.python_build()) != is_guided


@pytest.mark.parametrize(
    ("is_guided", "others", "chosen"),
    [(True, ["fast"], None), (False, ["slow", "fast"], "fast"), (False, ["slow"], None)],
    ids=["is fast itself", "another is faster", "none is"],
)
def test_venv_gets_the_python_that_was_built_with_profiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_guided: bool, others: list[str], chosen: str | None
) -> None:
    """A pyenv builds its Pythons without profiles, and comes before the system's on the PATH."""
    for name in others:
        other = tmp_path / name / "python3"
        other.parent.mkdir()
        other.write_text(f"#!/bin/sh\nexit {int(name == 'slow')}\n")
        other.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join(str(tmp_path / name) for name in others))
    monkeypatch.setattr(bootstrap, "is_profile_guided", lambda: is_guided)
    assert bootstrap.python_for_venv() == (tmp_path / chosen / "python3" if chosen else Path(sys.executable))


def test_a_python_is_asked_how_it_was_built(tmp_path: Path) -> None:
    assert bootstrap._is_faster(Path(sys.executable)) == bootstrap.is_profile_guided()
    other_version = tmp_path / "python3"
    other_version.write_text(f'#!/bin/sh\nexec {sys.executable} -c "import sys; sys.version_info = (3, 10); $2"\n')
    other_version.chmod(0o755)
    assert not bootstrap._is_faster(other_version)
