"""Writes docs/compatibility.md: the rows of the contract's table, each with the tests that prove its support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.promises.compatibility.rows import INDEX, INDEX_ROWS, QUEUE_ROWS, Row
from tools.local.state import ROOT

DOCUMENT = ROOT / "docs" / "compatibility.md"

_ERAS = {"N": "today", "P": "newest client", "O": "2019", "D": "2015 drafts", "E": "2014 and 2015", "A": "only here"}
_INTRODUCTION = """\
# Compatibility

<!-- Written by `./dev test -m endpoint --write-compatibility`, from the tests that passed in that run. -->

Every endpoint that Taskcluster's Queue and [Index](#the-index) have had: when, whether it is served here, and the test
that proves it. The eras: *today*, the clients and workers of 2026; *newest client*, only in the PyPI client 113 and
the Rust crate 114; *2019*, both services on Azure tables before they moved; *2015 drafts*, the first ways to poll
Azure queues; *2014 and 2015*, the Queue's first years, as the releases 0.4 to 0.23 of the npm client list them. An
endpoint that only had another name for a while (`getTask`, `getTaskStatus`, `getArtifactFromRun`) has one row. A test
counts only if the endpoint answered it with success, and the answer kept the schema that the deployment publishes; for
an endpoint that is not served, if it was answered as the table says.

A deployment publishes what it serves, for generators of clients: `/references/manifest.json`, the references below it,
`/schemas/<service>/v1/…`, and for each service an OpenAPI 3.1 document at `/references/<service>/v1/openapi.json`.
"""
_DIFFERENCES = """
## Differences from Taskcluster

What a program that was written for Taskcluster may notice, in one place.

* **Events** go to Service Bus topics, not to Pulse: [events.md](events.md). Clients and roles have no events. Duplicate
  detection hides repeats of a message that Taskcluster would send again (createTask, rerunTask and the like, repeated).
* **Services**: the Queue and the Index whole; of Auth and Object what these, their workers and clients need. Of Auth
  are missing `awsS3Credentials`, `azureAccounts`, `azureContainers`, `azureContainerSAS`, `azureTables`,
  `azureTableSAS`, `gcpCredentials`, `githubRepoToken`, `listGithubApps`, `sentryDSN`, `statsumToken`,
  `websocktunnelToken` (credentials for other services). What a role expands to is bounded, and a role may grant `*`,
  which Taskcluster refuses as a cycle ([security-auth.md](security-auth.md)). Histories begin with the latest
  entry. Temporary credentials have names that a client may have. A repeated createClient gives the token to the same
  caller only. `listAuditHistory` also tells what a client did to tasks, groups and workers. There are no hooks,
  secrets, purge-cache, worker-manager, notify, web-server or GitHub services, and no pages for them
  ([console.md](console.md#what-has-no-page)).
* **Who calls comes before what is said**: a call is refused with 401 or 403, whatever its body says, if no body could
  make it allowed. Taskcluster returns 400 for a malformed body, or 404, first. The scopes that such a refusal names
  may hold `<parameters>` in place of what the body says, if that has more than 16 KiB or breaks its schema.
* **Bodies** are JSON in UTF-8, with or without a byte order mark. Taskcluster also takes UTF-16 and compressed ones.
* **Limits of bodies**: JSON is nested at most 100 levels deep, has at most 200,000 values (arrays and objects count
  twice), of which 30,000 outside of a task's `payload` and `extra`, and no number with more than 100 digits in a row:
  400 InputError.
* **Errors** repeat a body of up to 4 KiB in `requestInfo.payload`, of a longer one the beginning as text; no error is
  longer than 64 KiB.
* **Bodies** have at most 1 MiB: a tenth of what Taskcluster takes today, and four times what it took while it was on
  Azure. Larger ones are answered 413, or 500 without a body by Azure's host. Bodies in chunks are answered 411.
* **503** with `Retry-After` while a process has more to do than it can answer in 15 seconds, for which calls wait, each
  client's in its turn; and while storage does not answer.
* **Values of 2019** that Taskcluster has dropped since are refused here, too: the priority `normal`, the reason
  `superseded`, and scopes from before tasks had credentials of their own (contract [2.2](contract.md#contract-2-2)).
* **claimWork** gives a call that already waits no task, but answers it early, so that it comes again: 503 `CallAgain`,
  which Taskcluster's clients repeat at once, or an empty list (contract [5.1](contract.md#contract-5-1)).
* **`currentScopes`** shows all credentials their own scopes. In Taskcluster they need `auth:current-scopes`, which the
  role `anonymous` grants in public deployments.
* **JSON is compact**, without line breaks and indentation.
* **A leap second** (`23:59:60`), which the schemas allow, is the second after it. Taskcluster accepts it in createTask,
  and takes it for 1970: a task with such a deadline is resolved at once. insertTask, createArtifact and createClient
  fail with 500 there, since JavaScript has no such date; quarantineWorker reads it as here.
* **`statuses`** returns 200 tasks a page without a `limit`, Taskcluster 1,000; clients go on with its token.
* **`__heartbeat__`** returns 503 if storage or Service Bus does not answer.
* **Artifacts** of type `s3` are blobs of Azure Storage; one that has not been uploaded returns 404, where Taskcluster
  redirects to a URL that does. `error` artifacts answer 424, as in Taskcluster. The encoding of an upload that is too
  large for the relay is told from its content, which cannot tell [one case](artifacts.md#how-a-put-reaches-the-blob).
  `contentLength` is shown also where nobody has stated it.
* **Paths**: where the platform decodes paths before the service sees them and does not pass on the path as it came
  (Core Tools), a signature of a path that can be encoded in many ways cannot be verified: 400 InputError.
"""
_INDEX = """
## The Index

Below `/api/index/v1`. The Index of 2015 and before stored in another way, and had no other endpoints.
"""
_INDEX_DIFFERENCES = """
## Differences from Taskcluster's Index

Besides those above, which hold for all services. Compared with the Index of September 2026; where that one fails with
500, here a rule or a 400 is in its place.

* **Which entry wins** does not depend on the order in which writes arrive: of two at the same time the higher rank
  always stays, and of equal ranks the later call or the later *completion*. Upstream the last writer wins the race, and
  a message of a completion that is delivered late takes the path back from a newer task of the same rank.
* **Paths** have 255 characters at most: 400. Upstream stores longer ones, and then cannot return them.
* **Ranks** are whole numbers of 32 bits: others are a 400, and leave a task out that asks for them by `extra.index`.
* **`data`** has 32,000 bytes as JSON at most: 400 InputError, and a task with more is not indexed. Upstream has no
  limit but the body's. `null` and arrays in `extra.index.data` leave the task out.
* **`extra.index`**: a task of which a value cannot be used is not indexed, and a line in the log says so. Upstream
  repeats some of these once, then drops them with an error report; `expires: null` makes an entry of 1970 there.
* **`findTasksAtIndex`** finds paths without a dot, returns a path once that is asked for twice, and its token belongs
  to the list of paths that it came with: nothing is found with another list. Expired entries are left out. It looks up
  200 paths without a `limit`, so that a page may be empty and not the last.
* **Lists** are in the order of the characters' codes and go on after the last name, so that nothing is repeated or
  left out while entries come and go; upstream counts from the beginning, in the order of its database's language. A
  token that is not ours is a 400 InputError, `limit=0` as well.
* **Namespaces** end at a midnight in UTC; upstream in the time zone of the server.
* **`findArtifactFromTask`** knows a change of the role `anonymous` within a minute, upstream within five. Its signed
  URL follows links to what its caller may read; upstream's follows all. A name that is empty or not printable ASCII is
  a 400; upstream leads to the queue, which says so.
"""

Proofs = Mapping[str, Sequence[str]]
"""Names of rows, each with the tests that passed for it."""


def document(proofs: Proofs) -> str:
    """Returns the document."""
    parts = [_INTRODUCTION, *_table(QUEUE_ROWS, proofs), _DIFFERENCES, *_table(INDEX_ROWS, proofs), _INDEX_DIFFERENCES]
    parts.insert(parts.index(_DIFFERENCES) + 1, _INDEX.lstrip("\n"))
    return "\n".join(parts)


def _table(rows: Sequence[Row], proofs: Proofs) -> list[str]:
    lines = ["| # | Endpoint | Method and route | Eras | Served | Proved by |", "|---|---|---|---|---|---|"]
    for row in rows:
        eras = ", ".join(_ERAS[era] for era in row.eras)
        tests = ", ".join(_linked(test) for test in sorted(proofs.get(row.name, ())))
        name = row.name.removeprefix(INDEX)
        lines.append(f"| {row.number} | {name} | `{row.route}` | {eras} | {row.support} | {tests} |")
    return lines


def _linked(test: str) -> str:
    path, _, name = test.partition("::")
    return f"[{name}](../{path})"
