"""The command `verify`: what is assumed of Azure, checked on the deployment that the environment names."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Annotated

import typer

from tools.admin.connection import credentials, root_url
from tools.admin.output import fail, say, show

DIFFERS, NOT_CHECKED = "differs", "not checked"


def verify(
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="CHECK", help="Only this check (repeatable).")
    ] = None,
) -> None:
    """Check what is assumed of Azure (docs/assumptions.md) on this deployment, in a few minutes.

    Needs the root client, and, for storage and events, the roles of an operator: STORAGE_ACCOUNT_NAME and
    SERVICEBUS_NAMESPACE with `az login`. It makes queues, a table, a container and topics named verify…, and removes
    them; one task runs in the pool verify/verify, and verify/verify-idle is asked for one. On the local stack some
    differences are expected, and named. What could not be checked is no success, unless the local stack lacks it.
    """
    from tools.admin.account import CONNECTION_STRINGS
    from tools.admin.verification import (
        CHECKS,  # with the clients of all services, which take longer than other commands
    )
    from tools.admin.verification.core import Deployment, run

    names = [check.name for check in CHECKS]
    unknown = [name for name in only or [] if name not in names]
    if unknown:
        fail(f"there is no check {', '.join(unknown)}; there are {', '.join(names)}")
    root_url()
    credentials()
    outcomes = []
    with Deployment(os.environ) as deployment:
        for outcome in run(deployment, [check for check in CHECKS if not only or check.name in only]):
            say(f"{outcome.result:12} {outcome.check} ({outcome.seconds:.1f} s) {outcome.found}".rstrip())
            outcomes.append(outcome)
        local = any(os.environ.get(name) for name in CONNECTION_STRINGS) and deployment.emulated
    show([asdict(outcome) for outcome in outcomes])
    wrong = [outcome.check for outcome in outcomes if outcome.result == DIFFERS]
    if wrong:
        fail(f"not as docs/assumptions.md says: {', '.join(wrong)}")
    unchecked = [f"{outcome.check} ({outcome.found})" for outcome in outcomes if outcome.result == NOT_CHECKED]
    if unchecked and not local:
        fail(f"nothing was checked of {', '.join(unchecked)}")
