"""A setting with which the app cannot be imported is named: by the package, and by the smoke test of a deployment."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import threading
from pathlib import Path

import pytest

from tests.promises.infra import templates
from tools.local import loads, settings_docs
from tools.local.state import ROOT

DEPLOYED = templates.resource("Microsoft.Web/sites/config", "small, bare")["properties"]


def test_the_app_can_be_imported_with_what_the_templates_set() -> None:
    both = (loads.functions(ROOT, {**DEPLOYED, "SERVES": serves}) for serves in ("calls", "uploads"))
    calls, uploads = map(set, both)
    assert {"http", "claim-expired", "expire"} <= calls
    assert uploads == {"http"}, "no queue is read, and no timer runs, where uploads are taken"


@pytest.mark.parametrize(
    ("text", "says"), [("import nothing_that_there_is", "nothing_that_there_is"), ("raise SystemExit", "SystemExit")]
)
def test_an_app_that_cannot_be_imported_shows_why(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "function_app.py").write_text(text)
    with pytest.raises(loads.NotLoaded, match=says):
        loads.functions(tmp_path, settings_docs.EXAMPLE_VALUES)


class _Empty(http.server.BaseHTTPRequestHandler):
    """Stands for a host that could load no function."""

    def do_GET(self) -> None:
        """Answers 404 on every path, as the platform does where no function was loaded."""
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: the test asserts what was said."""


def test_the_smoke_test_says_which_setting_is_bad(tmp_path: Path) -> None:
    settings = [{"name": name, "value": value} for name, value in {**DEPLOYED, "LONG_POLL_SECONDS": "soon"}.items()]
    (tmp_path / "settings").write_text(json.dumps(settings))
    az = tmp_path / "az"
    az.write_text(f'#!/bin/sh\ncase "$*" in *--name\\ func-abc*) cat {tmp_path}/settings ;; *) exit 9 ;; esac\n')
    az.chmod(0o755)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Empty)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "TASKCLUSTER_ROOT_URL": f"http://127.0.0.1:{server.server_port}",
        "SMOKE_TRIES": "1",
        "AZURE_FUNCTION_APP_NAME": "func-abc",
    }
    try:
        command = ["sh", str(templates.INFRA / "hooks" / "smoke-test.sh")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert done.returncode == 1
    assert "LONG_POLL_SECONDS" in done.stderr
