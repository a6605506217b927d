"""Numbers that pages tell operators, compared with what decides them."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
import yaml  # type: ignore[import-untyped]  # comes without types

from shared.auth.clients.ending import NOTICE
from shared.queue.artifacts.reading import LIFE as ARTIFACT_LIFE
from shared.queue.artifacts.rules import LONGEST_UPLOAD
from shared.queue.claims.poll_urls import LIFE as POLL_LIFE
from shared.queue.tasks.reconciler import UNUSED_FOR
from tools.admin.account import SETTLED
from tools.local.state import ROOT


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _said(name: str, pattern: str) -> list[str]:
    found = re.findall(pattern, _text(name))
    assert found, f"{name} no longer says {pattern}"
    return found


def _kept_packages() -> int:
    steps = yaml.safe_load(_text(".github/workflows/ci.yml"))["jobs"]["package"]["steps"]
    return int(next(step["with"]["retention-days"] for step in steps if "retention-days" in step.get("with", {})))


MINUTE = timedelta(minutes=1)
OPERATIONS = "docs/operations.md"
VAULT = _said("infra/modules/keyvault.bicep", r"softDeleteRetentionInDays: (\d+)")[0]
NUMBERS = [
    (OPERATIONS, r"its queues go after (\d+) days without use", UNUSED_FOR.days),
    (OPERATIONS, r"clients? that ends? within (\d+) days|a client ends within (\d+) days", NOTICE.days),
    (OPERATIONS, r"expires within (\d+) to \d+ minutes", max(ARTIFACT_LIFE, POLL_LIFE) // MINUTE),
    (OPERATIONS, r"expires within \d+ to (\d+) minutes", LONGEST_UPLOAD // MINUTE),
    (OPERATIONS, r"What changed within the last (\d+) minutes", SETTLED // MINUTE),
    (OPERATIONS, r"(\d+) weeks after they were made", _said("tools/admin/worker_clients.py", r'"(\d+)w"')[0]),
    (OPERATIONS, r"it can be recovered for (\d+) days", VAULT),
    ("infra/hooks/say-what-stays.sh", r"deleted, for (\d+) days", VAULT),
    (OPERATIONS, r"packages of\s+runs are kept for (\d+) days", _kept_packages()),
    ("infra/README.md", r"`run_id`, for (\d+) days", _kept_packages()),
    ("infra/README.md", r"aka\.ms/azd\) ([\d.]+) or newer", _said("azure.yaml", r'azd: ">= ([\d.]+)\.0"')[0]),
]


@pytest.mark.parametrize(("page", "pattern", "value"), NUMBERS)
def test_a_page_has_the_number_that_counts(page: str, pattern: str, value: object) -> None:
    for said in _said(page, pattern):
        assert (said if isinstance(said, str) else "".join(said)) == str(value)


def test_when_what_cannot_be_deleted_is_tried_again() -> None:
    """The documentation states the times after which a failed deletion is tried again that
    tests/promises/simulator/test_expiry_failures.py asserts."""
    (said,) = _said(OPERATIONS, r"retried after ([\d, ]+) and then every (\d+) hours")
    code = _text("tests/promises/simulator/test_expiry_failures.py")
    assert f"[{said[0]}, {said[1]}, {said[1]}]" in code
