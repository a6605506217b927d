"""What becomes of tasks and of the worker, however they end: the worker as a process, with a queue that is played."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.parts.local.stacks import wait
from tests.promises.worker.double import BACKING, LOG, QUIET, SECONDS, TOKEN, FakeQueue, fake_queue, shell, working
from tests.promises.worker.test_queue import OPTIONS
from worker import guard, run, runner
from worker.context import Context
from worker.log import LogStore
from worker.options import Options
from worker.users import User
from worker.worker import MAY_GROW, grown, held

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a daemon is not found")
STOP_SECONDS = 30.0
"""That whatever stops a worker leaves it (worker/README.md): what Container Apps does by default."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeQueue]:
    """Yields a queue with a worker, which the tests of this module share."""
    with fake_queue() as queue, working(queue, tmp_path_factory.mktemp("worker")):
        yield queue


def has_ended(pid: int) -> bool:
    """Gone, or a zombie that no process has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


RAW = {"file": "a/file", "content": {"raw": "text"}}
RETRIED = {"onExitStatus": {"retry": [75]}}
EXPIRED = {"type": "file", "expires": "2001-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("payload", "reported", "said"),
    [
        (shell("echo out; echo err >&2; cat a/file", mounts=[RAW]), "completed", "\nout\nerr\ntext"),
        (shell("read line || echo no input; kill -TERM $$"), "failed", "\nno input\n"),
        (shell("exit 3"), "failed", "Exit code 3\n"),
        (shell("kill -KILL 0"), "failed", "Ended by signal 9\n"),
        (shell("kill -TERM 0; sleep 60"), "failed", "Ended by signal 15\n"),
        (shell("kill -STOP $PPID; sleep 60", maxRunTime=0.5), "failed", "ended after maxRunTime"),
        (shell("exit 75", **RETRIED), "intermittent-task", "is to be retried"),
        ({"command": [["true"], ["sh", "-c", "exit 4"], ["echo", "not to be run"]]}, "failed", "Command 2 of 3\n"),
        ({"command": ["no-such-program"]}, "malformed-payload", "no-such-program could not be started: No such"),
        ({"command": ["/etc/passwd"]}, "malformed-payload", "could not be started: Permission denied"),
        ({"maxRunTime": [], "mounts": 1, "features": []}, "malformed-payload", '"command" is a required'),
        (shell("true", mounts=[{"file": "x", "content": {"url": "http://[/"}}]), "failed", "its URL cannot be used"),
        (shell("true", mounts=[{"file": "x", "content": {"url": f"http://{'a' * 99}/"}}]), "failed", "cannot be used"),
        (shell("true", artifacts=[{"type": "file", "path": "gone"}]), "failed", "gone is missing: gone does not exist"),
        (shell("touch refused", artifacts=[{**EXPIRED, "path": "refused"}]), "failed", "refused is refused: "),
        (shell("true", artifacts=[{**EXPIRED, "path": "refused"}]), "failed", "refused is refused: "),
        (shell("touch here", artifacts={"away": "here"}), "internal-error", "The queue has refused a call: "),
        (shell("touch here; exit 75", artifacts={"away": "here"}, **RETRIED), "intermittent-task", "refused a call"),
        (shell("touch here; exit 76", artifacts={"away": "here"}, **RETRIED), "failed", "has refused a call"),
        (shell("rm -rf $HOME $HOME/..; echo last words", artifacts={"a": "a"}), "failed", "\nlast words\n"),
    ],
)
def test_how_tasks_end(served: FakeQueue, payload: dict[str, Any], reported: str, said: str) -> None:
    served.refused.update({"refused": 400, "away": 409})
    task_id = served.add(payload)
    assert served.ended(task_id) == reported
    wait(lambda: said in served.log(task_id))
    assert "\nnot to be run" not in served.log(task_id)
    assert served.reports[task_id] == [reported]


def test_a_mount_whose_url_redirects_to_what_is_no_http(served: FakeQueue) -> None:
    def away(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", "file:///etc/passwd")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    served.get["/redirected"] = away
    task_id = served.add(shell("true", mounts=[{"file": "x", "content": {"url": f"{served.url}/redirected"}}]))
    assert served.ended(task_id) == "failed", "no other run can fetch it"


def test_what_a_command_sees(served: FakeQueue) -> None:
    forged = {"TASK_ID": "forged", "TASKCLUSTER_ROOT_URL": "https://example.com", "MINE": "a b"}
    script = "env; ls -A; readlink -f .; tr '\\0' '\\n' < /proc/$PPID/environ; cat /proc/self/oom_score_adj"
    task_id = served.add(shell(script, env=forged))
    assert served.ended(task_id) == "completed"
    lines = served.log(task_id).splitlines()
    assert {f"TASK_ID={task_id}", "RUN_ID=0", "MINE=a b", f"TASK_GROUP_ID={task_id}", "500"} <= set(lines)
    (home,) = (line.removeprefix("HOME=") for line in lines if line.startswith("HOME="))
    assert home in lines, "it begins in an empty folder"
    assert TOKEN not in served.log(task_id)
    assert "\nLC_" not in served.log(task_id), "no locale that the worker has not been given"
    assert f"TASKCLUSTER_ROOT_URL={served.url}" in lines
    wait(lambda: not Path(home).exists())


def test_everything_becomes_an_artifact_that_is_to_be_one(served: FakeQueue) -> None:
    artifacts = [
        {"type": "directory", "path": "out", "name": "public/out"},
        {"type": "file", "path": "out/a.txt", "name": "x", "contentEncoding": "gzip", "contentType": "text/x"},
        {"type": "file", "path": "gone", "optional": True},
        {"type": "file", "path": "out/b/b", "name": "early", "expires": "2001-01-01T01:00:00+01:00"},
    ]
    script = "mkdir -p out/b; echo a > out/a.txt; echo b > out/b/b; ln -s b/b out/c"
    task_id = served.add(shell(script, artifacts=artifacts))
    assert served.ended(task_id) == "completed"
    assert served.blobs[f"/blob/{task_id}/public/out/b/b"] == served.blobs[f"/blob/{task_id}/public/out/c"] == b"b\n"
    assert served.blobs[f"/blob/{task_id}/x"][:2] == b"\x1f\x8b"
    asked = {name: request["contentType"] for (task, name), request in served.artifacts.items() if task == task_id}
    assert asked.keys() == {"public/out/a.txt", "public/out/b/b", "public/out/c", "x", "early", LOG, BACKING}
    assert served.artifacts[task_id, "early"]["expires"] == "2001-01-01T00:00:00.000Z"
    assert (asked["public/out/a.txt"], asked["x"]) == ("text/plain", "text/x")


@pytest.mark.parametrize("ignores", ["", "trap '' TERM;"])
def test_max_run_time_ends_everything(served: FakeQueue, tmp_path: Path, ignores: str) -> None:
    script = f"{ignores} sleep 60 & echo $! > {tmp_path}/child; echo begun; wait"
    task_id = served.add(shell(script, maxRunTime=0.5))
    assert served.ended(task_id) == "failed"
    assert "ended after maxRunTime, 0.5 s.\n" in served.log(task_id)
    assert "\nbegun\n" in served.log(task_id)
    assert has_ended(int((tmp_path / "child").read_text(encoding="utf-8")))


@pytest.mark.parametrize("moment", ["mount", "upload"])
def test_commands_alone_are_given_time_to_end(tmp_path: Path, moment: str) -> None:
    held = {"held": threading.Event()}
    with fake_queue(held=held, get={"/slow": slow}) as queue, working(queue, tmp_path, "--grace-seconds", "300"):
        mounts = [{"file": "y", "content": {"url": f"{queue.url}/slow"}}] if moment == "mount" else []
        task_id = queue.add(shell("echo > x", maxRunTime=2, mounts=mounts, artifacts={"held": "x"}))
        assert queue.ended(task_id) == "failed"
        held["held"].set()
    assert "ended after maxRunTime, 2 s." in queue.log(task_id)


def test_when_time_is_over_no_other_command_begins_and_what_ends_is_heard(served: FakeQueue, tmp_path: Path) -> None:
    ending = f"trap 'sleep 0.3; echo last words; touch {tmp_path}/saved; exit' TERM; echo begun; sleep 60 & wait"
    commands = [["sh", "-c", f"({ending}) & trap 'exit 0' TERM; wait"], ["sh", "-c", "echo the second"]]
    task_id = served.add({"command": commands, "maxRunTime": 0.5})
    assert served.ended(task_id) == "failed"
    wait(lambda: "The run ends here" in served.log(task_id))
    assert "the second" not in served.log(task_id)
    assert "\nlast words\n" in served.log(task_id)
    assert (tmp_path / "saved").exists()


async def test_nothing_is_signed_for_the_log_once_a_part_has_said_how_it_ends(tmp_path: Path) -> None:
    """The worker would not answer, and the part would wait for ever."""
    begin = {"part": "artifacts", "task": {"payload": shell("true")}}
    with (tmp_path / "log").open("w+b") as file:
        store, nothing = LogStore(file.fileno(), 1000), cast(Any, None)
        task = Context(begin, tmp_path, {}, OPTIONS, nothing, nothing, nothing, store.say)
        assert await runner.work(task, store) == {"outcome": "completed"}
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_run_that_could_not_begin_leaves_nothing(tmp_path: Path) -> None:
    async with guard.Guard(dataclasses.replace(OPTIONS, work_dir=tmp_path)) as its:
        assert await its.end(filled=False, purged=False) == []


async def test_a_process_ends_from_its_first_moment_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = "import os, time; fast = os.listdir; "  # what a process does before it minds signals itself
    slow += "os.listdir = lambda path: (path == '/dev/fd' and time.sleep(2)) or fast(path); "
    *command, code, place = guard.COMMAND
    monkeypatch.setattr(guard, "COMMAND", (*command, slow + code, place))
    async with guard.Guard(dataclasses.replace(OPTIONS, work_dir=tmp_path)) as its:
        with await its.begin("run", {}):
            assert await asyncio.wait_for(its.stop(60), 30) == -signal.SIGTERM


def daemon(folder: Path, python: str = sys.executable) -> str:
    """Returns a script that leaves a daemon behind, which ignores signals, and writes down its id."""
    code = f"""
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open("{folder}/daemon", "w").write(str(os.getpid()) + "\\n")
        time.sleep(60)
    os._exit(0)
os.wait()
"""
    return f"{python} -I -S -c '{code}'; until [ -s {folder}/daemon ]; do sleep 0.02; done"


def test_what_one_command_leaves_the_next_one_finds(served: FakeQueue) -> None:
    commands = [["sh", "-c", "sleep 60 & echo $! > child"], ["sh", "-c", "kill -0 $(cat child)"]]
    assert served.ended(served.add({"command": commands})) == "completed"


def test_a_cache_stays_when_its_task_fails_unless_it_was_not_filled_or_is_purged(served: FakeQueue) -> None:
    def begins(script: str, **content: Any) -> str:
        mounts = [{"directory": "c", "cacheName": "kept", **content}]
        payload = shell(script, mounts=mounts, onExitStatus={"purgeCaches": [76]})
        task_id = served.add(payload, "generic-worker:cache:kept")
        assert served.ended(task_id) == "failed"
        wait(lambda: "at c: " in served.log(task_id))
        return served.log(task_id).partition("at c: ")[2].partition("\n")[0]

    assert begins("true", format="zip", content={"base64": "AAAA"}) == "new"
    assert begins("touch c/left; exit 1") == "new"
    assert begins("test -e c/left && exit 76") == "as it was left"
    assert begins("test -e c/left") == "new"
    assert begins("touch c/left; exit 1") == "as it was left"
    served.held["slow"] = threading.Event()
    late = shell("echo > x; exit 76", artifacts={"slow": "x"}, maxRunTime=1)
    mounts = [{"directory": "c", "cacheName": "kept"}]
    task_id = served.add({**late, "mounts": mounts, "onExitStatus": {"purgeCaches": [76]}}, "generic-worker:cache:kept")
    assert served.ended(task_id) == "failed", "an upload does not end in time"
    served.held.pop("slow").set()
    assert begins("test -e c/left") == "new"


def test_a_cancelled_task_cleans_up_and_its_log_is_finished(tmp_path: Path) -> None:
    with fake_queue() as queue, working(queue, tmp_path, "--watch-seconds", "0.2", "--grace-seconds", "30"):
        script = "trap 'echo cleaning up; exit 1' TERM; echo begun; echo > x; while :; do sleep 0.05; done"
        task_id = queue.add(shell(script, artifacts={"x": "x"}))
        wait(lambda: "begun" in queue.log(task_id))
        queue.cancelled.add(task_id)
        wait(lambda: "The run ends here: lost, since it is exception (canceled)." in queue.log(task_id))
        assert "\ncleaning up\n" in queue.log(task_id)
        assert queue.ended(queue.add(shell("true"))) == "completed"
    assert queue.reports[task_id] == []
    assert {name for task, name in queue.artifacts if task == task_id} == {LOG}, "nothing is done as if it had ended"


def begun(queue: FakeQueue, folder: Path, **more: Any) -> tuple[str, int]:
    """Returns a task that runs a daemon by now."""
    task_id = queue.add(shell(f"{daemon(folder)}; sleep 60", **more))
    wait(lambda: (folder / "daemon").exists() and (folder / "daemon").read_text(encoding="utf-8").endswith("\n"))
    return task_id, int((folder / "daemon").read_text(encoding="utf-8"))


def test_a_worker_that_is_asked_to_end_gives_its_task_back(tmp_path: Path) -> None:
    with fake_queue() as queue, working(queue, tmp_path) as worker:
        task_id, pid = begun(queue, tmp_path)
        assert worker.end() == 0
        assert has_ended(pid)
        assert "Retrying" not in worker.said, "how it was told of the task is no trouble"
        assert "tasks run as the worker's own user" in worker.said
    assert queue.reports[task_id] == ["worker-shutdown"]
    assert "The run ends here: the worker shuts down." in queue.log(task_id)


def test_a_result_that_is_being_reported_is_not_given_back(tmp_path: Path) -> None:
    """The task is not done a second time."""
    with fake_queue(held={"completed": threading.Event()}) as queue, working(queue, tmp_path) as worker:
        task_id = queue.add({"command": ["true"], **QUIET})
        wait(lambda: "completed" in queue.begun)
        worker.process.terminate()
        wait(lambda: "giving back" in worker.said)
        queue.held["completed"].set()
        assert worker.process.wait(SECONDS) == 0
    assert queue.reports[task_id] == ["completed"]


@pytest.mark.parametrize("answer", [(409, {}), (200, {"takenUntil": "soon"})], ids=["refused", "nonsense"])
def test_a_finished_task_is_reported_whatever_becomes_of_its_renewal(tmp_path: Path, answer: tuple[int, Any]) -> None:
    with fake_queue(claim_seconds=3) as queue:
        post, renewed = queue.post, threading.Event()

        def played(path: str, body: Any) -> tuple[int, Any]:
            if path.endswith("/reclaim"):
                renewed.set()
                return answer
            return post(path, body) if renewed.is_set() or not path.endswith("/completed") else (503, {})

        queue.post = played  # type: ignore[method-assign]
        with working(queue, tmp_path):
            assert queue.ended(queue.add({"command": ["true"], **QUIET})) == "completed"


def test_a_queue_that_is_away_does_not_keep_a_worker_from_ending(tmp_path: Path) -> None:
    with fake_queue(held={"worker-shutdown": threading.Event()}) as queue, working(queue, tmp_path) as worker:
        _, pid = begun(queue, tmp_path)
        assert worker.end() == 0
        assert "not ended as it should be" in worker.said
        assert has_ended(pid)


def test_the_time_that_it_takes_to_end_is_what_a_worker_is_left() -> None:
    longest = Options.grace_seconds + run.REPORT_SECONDS + 2 * run.SHUTDOWN_SECONDS + guard.END_SECONDS
    assert longest < STOP_SECONDS


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    """The first one waits for the answer to a poll, since it may bring a claim."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        queue = FakeQueue(url=f"http://127.0.0.1:{silent.getsockname()[1]}")
        with working(queue, tmp_path) as worker:
            silent.settimeout(SECONDS)
            connection, _ = silent.accept()
            with connection:
                worker.process.terminate()
                wait(lambda: "giving back what is running" in worker.said)
                worker.process.terminate()
                assert worker.process.wait(SECONDS) == -signal.SIGTERM


def slow(handler: BaseHTTPRequestHandler) -> None:
    """An answer that never ends."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b"x")
            time.sleep(0.1)
    except OSError:
        handler.close_connection = True


@pytest.mark.parametrize("moment", ["mount", "command", "upload", "report"])
def test_a_worker_that_is_killed_leaves_nothing(tmp_path: Path, moment: str) -> None:
    """Whatever it does at that moment; and another one begins in its place."""
    held = {"completed": threading.Event()} if moment == "report" else {}
    with fake_queue(held=held, get={"/slow": slow}) as queue:
        more: dict[str, Any] = {}
        if moment == "mount":
            more["mounts"] = [{"file": "x", "content": {"url": f"{queue.url}/slow"}}]
        if moment == "upload":
            more["artifacts"] = {"held": "x"}
        script = daemon(tmp_path) + ("; sleep 60" if moment == "command" else "; echo > x")
        with working(queue, tmp_path) as worker:
            if moment == "upload":
                queue.held["held"] = threading.Event()
            task_id = queue.add(shell(script, **more))
            wait((tmp_path / "work" / "tasks" / f"{task_id}-0").exists)
            if moment != "mount":
                wait((tmp_path / "daemon").exists)
                time.sleep(0.5)
            guard = worker.guard
            worker.process.kill()
            worker.process.wait()
        wait(lambda: has_ended(guard))
        assert list((tmp_path / "work" / "tasks").iterdir()) == []
        if moment != "mount":
            assert has_ended(int((tmp_path / "daemon").read_text(encoding="utf-8")))
        for event in queue.held.values():
            event.set()
        with working(queue, tmp_path):
            assert queue.ended(queue.add(shell("true"))) == "completed"


def test_a_task_that_kills_the_process_that_works_on_it_has_failed(served: FakeQueue) -> None:
    task_id = served.add(shell("echo begun; sleep 0.5; kill -KILL $PPID; sleep 60"))
    assert served.ended(task_id) == "failed"
    assert "\nbegun\n" in served.log(task_id)
    assert "the process that works on this task was ended by signal 9." in served.log(task_id)
    assert served.ended(served.add(shell("true"))) == "completed"


async def test_a_process_that_asks_without_end_holds_up_nothing_else() -> None:
    claim = cast(Any, SimpleNamespace(answer=lambda _: {}))
    mine, its = socket.socketpair()
    its.sendall(b"{}\n" * 200)
    its.shutdown(socket.SHUT_WR)
    serving, turns = asyncio.create_task(run.Run(claim, OPTIONS, cast(Any, None))._serve(mine, {})), 0
    while not serving.done():
        await asyncio.sleep(0)
        turns += 1
    its.close()
    assert turns > 200


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_user_is_told_to_end_by_one_call(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("psutil.Process")  # of thousands that are busy, looking at each takes too long
    with subprocess.Popen(["/bin/sleep", "60"], cwd="/", user=user.uid, group=user.gid, extra_groups=[]) as its:
        guard._send(signal.SIGTERM, user)
        assert its.wait(SECONDS) == -signal.SIGTERM


def test_a_worker_whose_guard_is_killed_ends_with_a_code_of_its_own(tmp_path: Path) -> None:
    """Tasks can kill the guard where they have no user of their own."""
    with fake_queue() as queue, working(queue, tmp_path) as worker:
        task_id = queue.add(shell("echo $$; kill -KILL $(ps -o ppid= -p $PPID); sleep 60"))
        another = queue.add(shell("true"))
        assert worker.process.wait(SECONDS) == 3
        assert "not as it was before its last task: its guard has ended" in worker.said
        assert queue.reports[task_id] == ["failed"]
        assert queue.reports[another] == [], "it has claimed nothing since"


def test_a_task_that_cannot_have_ended_the_guard_is_given_back(open_folder: Path, user: User) -> None:
    with fake_queue() as queue, working(queue, open_folder, "--task-user", str(user.uid)) as worker:
        task_id = queue.add(shell("echo begun; sleep 60"))
        wait(lambda: "begun" in queue.log(task_id))
        os.kill(worker.guard, signal.SIGKILL)
        assert worker.process.wait(SECONDS) == 3
    assert queue.reports[task_id] == ["worker-shutdown"]


@pytest.mark.parametrize("is_late", [False, True], ids=["", "while it waits for a claim"])
def test_a_worker_whose_guard_is_killed_while_it_is_idle_fails_nobodys_task(tmp_path: Path, is_late: bool) -> None:
    with fake_queue() as queue, working(queue, tmp_path) as worker:
        assert queue.ended(queue.add(shell("true"))) == "completed"
        os.kill(worker.guard, signal.SIGKILL)
        task_id = queue.add(shell("true")) if is_late else ""
        assert worker.process.wait(SECONDS) == 3
        assert queue.reports[task_id] in ([], ["worker-shutdown"])


def test_what_the_worker_may_hold_after_a_task() -> None:
    before = held()
    assert all(number > 0 for number in before.values())
    most = {what: number + MAY_GROW[what] for what, number in before.items()}
    assert grown(before, most) == []
    for what, number in most.items():
        (said,) = grown(before, {**most, what: number + 1})
        assert f"has {number + 1} {what}" in said


def test_a_disk_that_has_no_room_any_more_ends_the_worker(tmp_path: Path) -> None:
    """Its next task would fail for what this one has left."""
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize >> 20
    outside = tmp_path / "outside"
    with fake_queue() as queue, working(queue, tmp_path, "--keep-free", str(free - 64)) as worker:
        task_id = queue.add(shell(f"head -c 300000000 /dev/urandom > {outside}"))
        assert queue.ended(task_id) == "completed"
        try:
            assert worker.process.wait(SECONDS) == 3
        finally:
            outside.unlink()
        assert "the disk has only" in worker.said


@pytest.mark.parametrize("way", ["work directory", "refused"])
def test_a_worker_that_cannot_work_says_why(tmp_path: Path, way: str) -> None:
    with fake_queue() as queue:
        if way == "refused":
            queue.post = lambda *_: (403, {"message": "no"})  # type: ignore[method-assign]
        else:
            (tmp_path / "work").mkdir()
            (tmp_path / "work" / "tasks").touch()
        with working(queue, tmp_path) as worker:
            assert worker.process.wait(SECONDS) == 1
            assert ("does not let this worker ask for work" if way == "refused" else "cannot go on") in worker.said


@pytest.mark.skipif(not os.access("/usr/bin/python3", os.X_OK), reason="it needs a Python that every user may run")
@pytest.mark.parametrize(("own", "its"), [(300, 800), (700, 1000), (1000, 1000)])
def test_where_memory_runs_out_a_task_goes_before_its_worker(own: int, its: int) -> None:
    """A task's `oom_score_adj` is above its worker's, up to the greatest, whichever user the worker runs as."""
    code = Path(run.__file__).with_name("users.py").read_text(encoding="utf-8")
    code += "\nhide()\nbecome(None)\nprint(Path('/proc/self/oom_score_adj').read_text())"
    other: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
    script = f'echo {own} > /proc/self/oom_score_adj; exec /usr/bin/python3 -I -S -c "$0"'
    asked = subprocess.run(["sh", "-c", script, code], cwd="/", stdout=subprocess.PIPE, check=True, **other)
    assert int(asked.stdout) == its


def test_another_process_of_the_same_user_reads_nothing_of_the_worker(tmp_path: Path) -> None:
    """Root may, so this is another user's worker."""
    if os.getuid() != 0 or not os.access("/usr/bin/python3", os.X_OK):
        pytest.skip("it starts processes of another user")
    code = Path(run.__file__).with_name("users.py").read_text(encoding="utf-8")
    more: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/", "stdout": subprocess.PIPE}
    command = ["/usr/bin/python3", "-I", "-S", "-c", f"{code}\nhide()\nprint('hidden', flush=True)\ninput()"]
    with subprocess.Popen(command, env={"TOKEN": TOKEN}, stdin=subprocess.PIPE, **more) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"hidden\n"
        for name in ("environ", "mem", "fd/0"):
            reader = subprocess.run(
                ["/bin/cat", f"/proc/{worker.pid}/{name}"], stderr=subprocess.DEVNULL, check=False, **more
            )
            assert reader.returncode != 0
            assert reader.stdout == b""
