"""`verify` on the local stack, and on stacks in which something is planted."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.promises.admin.conftest import FRONT
from tests.promises.admin.operators import Operator
from tools.admin.verification import CHECKS
from tools.admin.verification.core import Deployment, run
from tools.local.stack import Stack

EXPECTED = {check.name for check in CHECKS if check.emulated}
"""Checks whose result the local stack is known to differ in."""


def test_the_local_stack_is_as_assumed_but_for_what_is_named(operator: Operator) -> None:
    code, output, messages = operator.run("verify")
    assert code == 0, messages
    outcomes = {each["check"]: each for each in json.loads(output)}
    assert list(outcomes) == [check.name for check in CHECKS]
    assert {name for name, each in outcomes.items() if each["result"] == "expected"} == EXPECTED
    assert {name for name, each in outcomes.items() if each["result"] == "not checked"} == {
        "settings",
        "roles",
        "memory",
        "description",
    }
    others = outcomes.keys() - EXPECTED - {"settings", "roles", "memory", "description"}
    assert {name for name, each in outcomes.items() if each["result"] == "holds"} == others
    assert all(outcomes[name]["found"] for name in EXPECTED)


def test_a_difference_ends_with_code_1_and_its_name(operator: Operator) -> None:
    code, output, messages = operator.run("verify", "--only", "topics", environment={"TOPIC_PREFIX": "elsewhere/"})
    assert code == 1
    assert json.loads(output)[0]["result"] == "differs"
    assert "there is no topic elsewhere/task-defined" in json.loads(output)[0]["found"]
    assert "(TOPIC_PREFIX is 'elsewhere/')" in json.loads(output)[0]["found"]
    assert messages.splitlines()[-1] == "not as docs/assumptions.md says: topics"


def test_nothing_of_the_checks_is_left(stack: Stack) -> None:
    with Deployment(stack.environment) as deployment:
        names = {"receipts-change", "keys-sort-by-code", "blocks-commit-once", "default-rule"}
        list(run(deployment, [check for check in CHECKS if check.name in names]))
        suffix = deployment.suffix
        assert any(suffix in queue.name for queue in deployment.queues.list_queues())
    with Deployment(stack.environment) as after:
        found = [each.name for service in (after.queues.list_queues(), after.tables.list_tables()) for each in service]
        found += [each.name for each in after.blobs.list_containers()]
        found += [each.name for each in after.bus[1].list_topics()]
    assert not [name for name in found if suffix in name]


class Front:
    """A front end that changes what passes."""

    def __init__(self, stack: Stack, plant: str) -> None:
        self.target, self.plant = stack.options.ports.api, plant

    def changed(self, path: str, content: bytes) -> bytes:
        """Returns the body as it is passed on, here unchanged."""
        return content

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Passes a call on, and its answer back, with the planted change."""
        path, plant = handler.path, self.plant
        if plant == "encodes paths again":
            path = path.replace("%2F", "%252F")
        if plant == "rewrites queries":
            path = path.replace("%2B", "+")
        if plant == "cuts long polls" and "/claim-work/" in path:
            handler.close_connection = True
            return
        connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=30)
        with contextlib.closing(connection):
            body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
            sent = dict(handler.headers)
            if plant in ("drops encodings", "unpacks bodies") and sent.pop("Content-Encoding", None):
                body = gzip.decompress(body) if plant == "unpacks bodies" else body
                sent["Content-Length"] = str(len(body))
            connection.request(handler.command, path, body, sent)
            got = connection.getresponse()
            content = got.read()
        status, headers = got.status, dict(got.getheaders())
        if plant == "shows a page" and path == "/":
            status, headers, content = (
                200,
                {"Content-Type": "text/html"},
                b"<html>Your Azure Function App is up and running.",
            )
        if plant == "has a wrong clock":
            headers = {name: value for name, value in headers.items() if name.lower() != "date"}
            headers["Date"] = "Thu, 01 Jan 2026 00:00:00 GMT"
        if plant == "is down":
            status = 503
        content = self.changed(path, content)
        handler.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)


@contextlib.contextmanager
def _listening(front: Front) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            front.answer(self)

        do_GET = do_POST = do_PUT = _any

        def log_message(self, format: str, *args: object) -> None:
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", front.target + FRONT), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


FRONT_PLANTS = (
    ("is down", "answers"),
    ("is down", "one-task"),
    ("unpacks bodies", "one-task"),
    ("drops encodings", "one-task"),
    ("is down", "poll-rights"),
    ("is down", "large-bodies"),
    ("encodes paths again", "raw-paths"),
    ("rewrites queries", "raw-queries"),
    ("cuts long polls", "long-polls"),
    ("shows a page", "no-homepage"),
    ("has a wrong clock", "clocks"),
)


QUEUE_PLANTS = (
    ("hides for longer", "hidden-for-a-week"),
    ("lives for a week", "any-lifetime"),
    ("keeps receipts", "receipts-change"),
    ("has no receipt of the put", "receipt-of-the-put"),
    ("counts updates", "dequeue-counts"),
    ("counts the visible", "count-includes-hidden"),
    ("takes more", "message-size"),
)
