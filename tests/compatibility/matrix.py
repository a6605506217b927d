"""docs/compatibility.md: the rows of the contract's table, each with the test that proves what is said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from local.state import ROOT
from tests.compatibility.rows import ROWS

DOCUMENT = ROOT / "docs" / "compatibility.md"

_ERAS = {"N": "today", "P": "newest client", "O": "2019", "D": "2015 drafts", "E": "2014 and 2015", "A": "only here"}
_INTRODUCTION = """\
# Compatibility

<!-- Written by `./dev test -m endpoint --write-compatibility`, from the tests that passed in that run. -->

Every endpoint that Taskcluster's Queue has had: when, whether it is served here, and the test that proves it. The
eras: *today*, the clients and workers of 2026; *newest client*, only in the PyPI client 113 and the Rust crate 114;
*2019*, the Queue on Azure tables before it moved; *2015 drafts*, the first ways to poll Azure queues; *2014 and 2015*,
the Queue's first years, as the releases 0.4 to 0.23 of the npm client list them. An endpoint that only had another name
for a while (`getTask`, `getTaskStatus`, `getArtifactFromRun`) has one row. A test counts only if the endpoint answered
it with success, and the answer kept the schema that the deployment publishes; for an endpoint that is not served, if it
was answered as the table says.

A deployment publishes what it serves, for generators of clients: `/references/manifest.json`, the references below it,
`/schemas/<service>/v1/…`, and for each service an OpenAPI 3.1 document at `/references/<service>/v1/openapi.json`.
"""
_DIFFERENCES = """
## Differences from Taskcluster

What a program that was written for Taskcluster may notice, in one place.

* **Events** go to Service Bus topics, not to Pulse: [events.md](events.md). Clients and roles have no events. Duplicate
  detection hides repeats of a message that Taskcluster would send again (createTask, rerunTask and the like, repeated).
* **Services**: the Queue whole; of Auth and Object what the Queue, its workers and its clients need. Of Auth are
  missing `getEntityHistory` and `listAuditHistory` (audit logs), and `awsS3Credentials`, `azureAccounts`,
  `azureContainers`, `azureContainerSAS`, `azureTables`, `azureTableSAS`, `gcpCredentials`, `githubRepoToken`,
  `listGithubApps`, `sentryDSN`, `statsumToken`, `websocktunnelToken` (credentials for other services). What a role
  expands to is bounded, and a role may grant `*`, which Taskcluster refuses as a cycle
  ([security-auth.md](security-auth.md)). There are no hooks, secrets, purge-cache, worker-manager, notify,
  web-server or GitHub services.
* **Who calls comes before what is said**: a call is refused with 401 or 403 before its body is parsed if no body could
  make it allowed. Taskcluster returns 400 for a malformed body, or 404, first.
* **Limits of bodies**: JSON is nested at most 100 levels deep, has at most 200,000 values (arrays and objects count
  twice), of which 30,000 outside of a task's `payload` and `extra`, and no number with more than 100 digits in a row:
  400 InputError. A number beyond a double, such as 1e400, is malformed; Taskcluster stores null.
* **Errors** repeat a body of up to 4 KiB in `requestInfo.payload`, of a longer one the beginning as text; no error is
  longer than 64 KiB. A body of more than 10 MiB is answered 413, not 500.
* **503** with `Retry-After` while a process has more to do than it can answer, and while storage does not answer.
* **Values of 2019** that Taskcluster has dropped since are refused here, too: the priority `normal`, the reason
  `superseded`, and scopes from before tasks had credentials of their own (contract [2.2](contract.md#contract-2-2)).
* **JSON is compact**, without line breaks and indentation.
* **`__heartbeat__`** returns 503 if storage or Service Bus does not answer.
* **Artifacts** of type `s3` are blobs of Azure Storage; one that has not been uploaded returns 404, where Taskcluster
  redirects to a URL that does. `error` artifacts answer 424, as in Taskcluster.
* **Paths**: where the platform decodes paths before the service sees them and does not pass on the path as it came
  (Core Tools), a signature of a path that can be encoded in many ways cannot be verified: 400 InputError.
"""

Proofs = Mapping[str, Sequence[str]]
"""Names of rows, each with the tests that passed for it."""


def document(proofs: Proofs) -> str:
    """The document. Raises KeyError for a row without a proof."""
    lines = ["| # | Endpoint | Method and route | Eras | Served | Proved by |", "|---|---|---|---|---|---|"]
    for row in ROWS:
        eras = ", ".join(_ERAS[era] for era in row.eras)
        tests = ", ".join(_linked(test) for test in sorted(proofs[row.name]))
        lines.append(f"| {row.number} | {row.name} | `{row.route}` | {eras} | {row.support} | {tests} |")
    return "\n".join([_INTRODUCTION, *lines, _DIFFERENCES])


def _linked(test: str) -> str:
    path, _, name = test.partition("::")
    return f"[{name}](../{path})"
