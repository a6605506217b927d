"""The reference worker's command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from worker.options import Options, id_of_host, parse

ARGUMENTS = ["--task-queue-id", "prov/type", "--worker-group", "g", "--worker-id", "i"]
ENVIRONMENT = {
    "TASKCLUSTER_ROOT_URL": "https://tc.example.com",
    "TASKCLUSTER_CLIENT_ID": "me",
    "TASKCLUSTER_ACCESS_TOKEN": "secret-token",
}


def test_defaults() -> None:
    options = parse(ARGUMENTS, ENVIRONMENT)
    assert options == Options(
        root_url="https://tc.example.com",
        credentials={"clientId": "me", "accessToken": "secret-token"},
        task_queue_id="prov/type",
        worker_group="g",
        worker_id="i",
        work_dir=options.work_dir,
    )
    assert options.poll_mode == "signed"
    others = parse([*ARGUMENTS, "--worker-id", "j"], ENVIRONMENT)
    assert others.work_dir != options.work_dir, "it is of one worker alone"
    assert not options.work_dir.exists(), "the worker makes it, and looks whose it is"


def test_all_that_can_be_given(tmp_path: Path) -> None:
    more = ["--poll-mode", "claim-work", "--idle-seconds", "0.5", "--work-dir", str(tmp_path)]
    options = parse([*ARGUMENTS, *more], {**ENVIRONMENT, "TASKCLUSTER_CERTIFICATE": "{}"})
    assert (options.poll_mode, options.idle_seconds) == ("claim-work", 0.5)
    assert options.work_dir == tmp_path.resolve()
    assert options.credentials["certificate"] == "{}"


def test_variables_give_options_and_the_command_line_wins(tmp_path: Path) -> None:
    variables = {
        "WORKER_TASK_QUEUE_ID": "prov/other",
        "WORKER_GROUP": "-g",
        "WORKER_IDLE_TIMEOUT": "60",
        "WORKER_MAX_TASKS": "3",
        "WORKER_WORK_DIR": str(tmp_path),
        "WORKER_POLL_MODE": "",
    }
    options = parse(["--task-queue-id", "prov/type", "--worker-id", "i"], {**ENVIRONMENT, **variables})
    assert (options.task_queue_id, options.worker_group, options.poll_mode) == ("prov/type", "-g", "signed")
    assert (options.idle_timeout, options.max_tasks, options.work_dir) == (60.0, 3, tmp_path.resolve())


@pytest.mark.parametrize(
    ("name", "worker_id"),
    [("vm000001", "vm000001"), ("a.b.example", "a-b-example"), ("", "worker"), ("x" * 38, "x" * 38)],
)
def test_a_worker_is_named_after_its_host(name: str, worker_id: str) -> None:
    assert id_of_host(name) == worker_id
    first, second = (id_of_host("my-team-linux-workers-job-" + "y" * 20 + end) for end in "ab")
    assert first != second
    assert len(first) == len(second) == 38


@pytest.mark.parametrize(("name", "uid"), [("65534", 65534), ("4000000001", 4000000001), ("nobody", 65534)])
def test_users_by_name_and_number(monkeypatch: pytest.MonkeyPatch, name: str, uid: int) -> None:
    monkeypatch.setattr("os.getuid", lambda: 0)
    monkeypatch.setattr("sys.platform", "linux")
    user = parse([*ARGUMENTS, "--task-user", name], ENVIRONMENT).task_user
    assert user is not None
    assert user.uid == uid


def test_credentials_are_not_shown() -> None:
    assert "secret-token" not in repr(parse(ARGUMENTS, ENVIRONMENT))


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (["--task-queue-id", "prov"], {}, "'prov'"),
        (["--task-queue-id", "prov/Type"], {}, "'prov/Type'"),
        (["--worker-group", "a.b"], {}, "'a.b'"),
        (["--worker-id", "x" * 39], {}, "x" * 39),
        (["--poll-mode", "guess"], {}, "'guess'"),
        (["--idle-seconds", "0"], {}, "'0'"),
        (["--idle-seconds", "soon"], {}, "'soon'"),
        (["--idle-seconds", "nan"], {}, "'nan'"),
        (["--idle-timeout", "-1"], {}, "'-1'"),
        (["--max-tasks", "0"], {}, "'0'"),
        (["--log-limit", "0"], {}, "'0'"),
        (["--task-user", "root"], {}, "root is what tasks must not be"),
        (["--task-user", "0"], {}, "root is what tasks must not be"),
        (["--task-user", "no-such-user"], {}, "no-such-user"),
        (["--task-user", "4294967295"], {}, "4294967295"),
        (["--task-user", "nobody"], {}, "needs a worker that is root"),
        (["--work-dir", "/nowhere/at/all"], {}, "'/nowhere/at/all'"),
        ([], {"WORKER_MAX_TASKS": "many"}, "--max-tasks: 'many'"),
        *(([], {name: ""}, f"set {name} in the environment") for name in ENVIRONMENT),
        ([], {"TASKCLUSTER_ACCESS_TOKEN": ""}, "./dev up --detach"),
        *(
            ([], {"TASKCLUSTER_ROOT_URL": url}, f"'{url}' is not a URL that begins with https:// (or http://)")
            for url in ("127.0.0.1:7071", "ftp://a", "https://")
        ),
    ],
)
def test_what_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    variables: dict[str, str],
    said: str,
) -> None:
    monkeypatch.setattr("os.getuid", lambda: 1000)
    with pytest.raises(SystemExit) as ended:
        parse([*ARGUMENTS, *arguments], {**ENVIRONMENT, **variables})
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", [None, "./dev worker"])
def test_what_is_printed(name: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    """The help has the name that was typed."""
    with pytest.raises(SystemExit) as ended:
        parse(["--help"], {"STARTED_AS": name} if name else {})
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith(f"usage: {name or 'python -m worker'} [-h]")
    assert "MiB of the disk are free (default: 1024)" in " ".join(said.split())
    assert "longer logs (default: 100)" in " ".join(said.split())
