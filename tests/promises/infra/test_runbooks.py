"""The order in which the runbooks' commands stand: what must be done first, and what has to follow."""

from __future__ import annotations

import re

import pytest

from tests.promises.infra.runbooks import PAGES, blocks

BLOCKS = [block for page in PAGES for block in blocks(page)]
BEFORE = [
    (r"backup restore", r"azd deploy", "nothing writes while rows are put back"),
    (r"env get-value STORAGE_ACCOUNT_NAME", r"export STORAGE_ACCOUNT_NAME", "commands go to the new account"),
    (r"azd provision", r"get-value STORAGE_ACCOUNT_NAME", "what was deployed is what is read"),
    (r"root-access-token-previous", r"--name root-access-token --value", "claims go on with the token before"),
    (r"deployment set acceptPreviousRootToken", r"azd provision", "the app reads the token before"),
    (r"deployment set", r"azd provision", "what is described is what is deployed"),
    (r"azd env set", r"azd (provision|up)", "what is given is deployed"),
    (r"storage account failover", r"storage account show", "the account that is taken is the one that was moved"),
    (r"--at-rest --repair", r"azd deploy", "nothing else writes while rows are repaired"),
    (r"disableClient", r"resetAccessToken", "the leaked token ends at once"),
    (r"resetAccessToken", r"enableClient", "nobody uses the leaked token any more"),
    (r"bad disk.*\n.*quarantineWorker", r"1970-01-01", "a worker that is good again comes back"),
    (r"pool drain", r"pool refill", "what was stopped goes on"),
    (r"poison list", r"poison (redrive|drop)", "one looks before one acts"),
    (r"check \"\$TASK_ID\"$", r"check \"\$TASK_ID\" --repair", "one looks before one acts"),
    (r"index check$", r"index check --repair", "one looks before one acts"),
    (r"worker-client create", r"azd provision", "a job finds its secrets"),
    (r"az acr build", r"deployment set workerImage", "there is an image"),
    (r"gh release download", r"config-zip", "there is a package"),
]
"""Pairs of commands of which the first is run before the second, if a block has both."""
AFTER = [
    (r"keyvault secret set --vault-name \"\$VAULT\" --name (root|message|access)", r"resolve-secrets.sh --refresh"),
    (r"revoke-delegation-keys", r"functionapp restart"),
    (r"resetAccessToken \"\$CLIENT_ID", r"enableClient"),
    (r"pool drain", r"pool refill"),
]
"""Pairs of a command and one that has to follow it in its block: settings and keys are read when the app starts."""


@pytest.mark.parametrize(("first", "second", "why"), BEFORE)
def test_what_has_to_be_done_first_is_first(first: str, second: str, why: str) -> None:
    both = [block for block in BLOCKS if re.search(first, block, re.M) and re.search(second, block, re.M)]
    assert both, "no block has both any more: adapt the rule"
    for block in both:
        starts = [min(match.start() for match in re.finditer(each, block, re.M)) for each in (first, second)]
        assert starts[0] < starts[1], f"{why}:\n{block}"


@pytest.mark.parametrize(("command", "then"), AFTER)
def test_what_has_to_follow_follows(command: str, then: str) -> None:
    having = [block for block in BLOCKS if re.search(command, block)]
    assert having, "no block has it any more: adapt the rule"
    for block in having:
        last = max(match.end() for match in re.finditer(command, block))
        assert re.search(then, block[last:]), block
