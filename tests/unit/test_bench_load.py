"""`./dev bench`: what it reads from logs, writes into tables, and compares; its clients sign as any client does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared.auth import hawk
from tools.bench.load import __main__ as command
from tools.bench.load.burst import named
from tools.bench.load.client import CallFailed, Client, Target
from tools.bench.load.compare import compare
from tools.bench.load.crowd import Clock, percentile
from tools.bench.load.hostlog import HostLogs
from tools.bench.load.report import charts, markdown, write
from tools.bench.load.result import Curve, Result, Row
from tools.bench.load.shapes import SHAPES


def a_result(rate: float = 10.0) -> Result:
    return Result(
        started="2026-01-01 00:00 UTC",
        commit="abc1234",
        preset="quick",
        target="a local stack of its own",
        clients=4,
        machine={"cores": 2, "processor": "a processor"},
        rows=[
            Row(part="throughput", name="createTask", count=30, rate=rate, p50=8.0, p99=200.0, requests=6.0,
                cpu={"host-7991": 5.0, "azurite-table": 2.0, "clients": 1.0}),
            Row(part="ceiling", name="createTask, bare requests", rate=40.0, requests=6.0),
        ],
        curves=[Curve(name="createTask by pending tasks", across="tasks", unit="ms", points=[(0, 8.0), (100, 9.0)])],
        memory={"host-7991": 90.0},
    )  # fmt: skip


def line(call: str, requests: int) -> str:
    fields = {"call": call, "action": "call_done", "storageOperations": requests}
    return json.dumps({"level": "Information", "message": f"{call}: 200 after 8 ms {json.dumps(fields)}"}) + "\n"


def test_costs_are_read_from_where_the_log_was_read_to(tmp_path: Path) -> None:
    log = tmp_path / "host-1.log"
    log.write_text("starting\n" + line("createTask", 9) + line("createTask", 6) + line("status", 1))
    logs = HostLogs([log])
    costs = logs.read()
    assert (costs["createTask"].calls, costs["createTask"].each, costs["status"].each) == (2, 7.5, 1.0)
    with log.open("a") as file:
        file.write(line("status", 1) + line("createTask", 6)[:-10])
    assert set(logs.read()) == {"status"}, "a line that is being written is left for the next time"
    with log.open("a") as file:
        file.write(line("createTask", 6)[-10:])
    assert logs.read()["createTask"].requests == 6


def test_run_survives_being_saved(tmp_path: Path) -> None:
    result = a_result()
    write(result, tmp_path)
    assert Result.load(tmp_path) == result
    assert {path.name for path in tmp_path.iterdir()} == {"result.json", "report.md", "calls-by-pending-tasks.svg"}


def test_file_that_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(ValueError, match="holds no result"):
        Result.load(tmp_path)


def test_tables_show_what_was_measured() -> None:
    text = markdown(a_result())
    assert "| createTask | 10.0 | 8.00 | 200 | 6.00 | 5.00 | 2.00 | 1.00 |" in text
    assert "createTask: 25% of what the emulator serves bare" in text
    assert "Memory at the end: host-7991 90 MB." in text
    assert list(charts(a_result())) == ["calls-by-pending-tasks.svg"]


def test_tables_show_what_was_refused() -> None:
    result = a_result()
    result.rows.append(Row(part="burst", name="at once", failures=1, sent_again=12, p99=2000.0))
    assert "| at once (1 failed, 12 refused and sent again) | – | – | 2,000 | – |" in markdown(result)


def test_other_clients_of_a_burst_have_names_of_their_own() -> None:
    root = Target("https://tc.example.com", "me", "some-token-0123456789abcdef")
    others = [named(root, number) for number in range(2)]
    assert [other.client_id for other in others] == ["bench/other-0", "bench/other-1"]
    assert all(json.loads(other.certificate)["issuer"] == "me" for other in others)
    assert named(others[0], 1) == others[0], "temporary credentials issue no others"


def test_two_runs_are_compared_by_ratios() -> None:
    text = compare(a_result(), a_result(rate=15.0))
    assert "| createTask | a second | 10.0 | 15.0 | 1.50 |" in text
    assert "| createTask | CPU ms of the hosts | 5.00 | 5.00 | 1.00 |" in text
    assert "| createTask by pending tasks, 100 tasks | ms | 9.00 | 9.00 | 1.00 |" in text


def test_page_is_renewed_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text(f"before\n\n{command.MARKS[0]}\nold\n{command.MARKS[1]}\n\nafter\n")
    for _ in range(2):
        command.document(a_result(), page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert text.count("### Calls, 4 clients at a time") == 1
    assert (tmp_path / "performance-calls-by-pending-tasks.svg").read_text().startswith("<svg")


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("count", [4, 24, 400])
def test_tasks_of_a_shape_depend_on_earlier_ones(name: str, count: int) -> None:
    plan = SHAPES[name](count)
    assert len(plan) == count
    assert all(0 <= required < index for index, each in enumerate(plan) for required in each)


def test_requests_are_signed_as_the_service_checks() -> None:
    client = Client(Target("https://tc.example.com", "me", "some-token-0123456789abcdef"))
    body, resource = b'{"a": 1}', "/api/queue/v1/task/x"
    signed = hawk.parse_header(client._authorization("PUT", resource, body, None))
    site = hawk.Site.of("https://tc.example.com")
    key = "some-token-0123456789abcdef"
    assert hawk.check_mac(signed, keys=[key], method="PUT", resources=[resource], site=site) == 0
    hawk.check_payload(signed, content_type="application/json", body=body)


def test_failed_call_is_noted_and_has_no_latency() -> None:
    clock = Clock()

    def fails() -> None:
        raise CallFailed("503")

    assert clock.timed("status", fails) is None
    seen = clock.stop()
    assert (seen.failures, seen.count("status")) == (["503"], 0)


def test_percentiles() -> None:
    assert percentile([0.003, 0.001, 0.002], 0.5) == 2.0
    assert percentile([0.001] * 99 + [1.0], 0.99) == 1000.0
    assert percentile([], 0.5) == 0.0


def test_deployment_without_credentials_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TASKCLUSTER_CLIENT_ID", "TASKCLUSTER_ACCESS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SystemExit, match="TASKCLUSTER_CLIENT_ID"):
        command.main(["--root-url", "https://tc.example.com"])
