"""The clients by which a task queue's workers come and go by themselves: `worker-client`.

There are two: the workers' own, which can claim, and the scaler's, which can read how much there is to do. The scaler
gets no token but a bewit, the signature of the one URL that it asks for (docs/workers-azure.md).
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, quote, urlsplit

import typer

from admin.connection import auth_api, root_url
from admin.durations import duration, expiry
from admin.output import fail, say, show
from admin.pool_commands import TaskQueueId
from admin.signing import signed_url

worker_clients = typer.Typer(
    help="Clients for workers that come and go by themselves, and their secrets in a Key Vault.", no_args_is_help=True
)
WORKER_GROUP = json.loads((Path(__file__).parents[1] / "infra" / "workers" / "defaults.json").read_text())[
    "workerGroup"
]

WorkerGroup = Annotated[str, typer.Option("--worker-group", help="The group of the workers' ids.")]
Polling = Annotated[
    bool, typer.Option("--signed-polling", help="Let workers poll by signed URLs, too: one scope more.")
]
ExpiresIn = Annotated[str, typer.Option("--expires-in", help="How long clients and bewit work: 30d, 52w.")]
KeyVault = Annotated[
    str | None,
    typer.Option("--key-vault", help="Put the secrets into this vault by `az`, and show none.", show_default=False),
]


def worker_client_id(task_queue_id: str) -> str:
    """The workers' client."""
    return f"worker/{task_queue_id}"


def scaler_client_id(task_queue_id: str) -> str:
    """The client that signs the scaler's URL. The bewit ends with it."""
    return f"scaler/{task_queue_id}"


def secret_names(task_queue_id: str) -> tuple[str, str]:
    """The names in the vault of the workers' access token and of the bewit, as infra/workers/pool.bicep reads them."""
    prefix = f"worker-{task_queue_id.lower().replace('_', '-').replace('/', '--')}"
    return f"{prefix}-access-token", f"{prefix}-bewit"


def worker_scopes(task_queue_id: str, worker_group: str, *, signed_polling: bool) -> list[str]:
    """What a worker needs before it has a claim (contract 2.2)."""
    polling = [f"queue:poll-task-urls:{task_queue_id}"] if signed_polling else []
    return [f"queue:claim-work:{task_queue_id}", f"queue:worker-id:{worker_group}/*", *polling]


def scaler_scopes(task_queue_id: str) -> list[str]:
    """What taskQueueLoad needs (contract 2.2)."""
    return [f"queue:pending-count:{task_queue_id}", f"queue:claimed-count:{task_queue_id}"]


@worker_clients.command("create")
def create(
    task_queue_id: TaskQueueId,
    worker_group: WorkerGroup = WORKER_GROUP,
    signed_polling: Polling = False,
    expires_in: ExpiresIn = "52w",
    key_vault: KeyVault = None,
) -> None:
    """Create a task queue's clients: the workers', with two scopes, and the scaler's, with the bewit of its URL."""
    scopes = {
        worker_client_id(task_queue_id): worker_scopes(task_queue_id, worker_group, signed_polling=signed_polling),
        scaler_client_id(task_queue_id): scaler_scopes(task_queue_id),
    }
    made = []
    with auth_api() as auth:
        for client_id, held in scopes.items():
            definition = {
                "description": f"Made by `worker-client create {task_queue_id}`.",
                "expires": expiry(expires_in),
                "scopes": held,
                "deleteOnExpiration": False,
            }
            made.append(auth.createClient(client_id, definition))
    _hand_out(task_queue_id, made[0], made[1], expires_in, key_vault)


@worker_clients.command("rotate")
def rotate(task_queue_id: TaskQueueId, expires_in: ExpiresIn = "52w", key_vault: KeyVault = None) -> None:
    """Give both clients new tokens and a new end, and make a new bewit. The old ones end within a minute."""
    made = []
    with auth_api() as auth:
        for client_id in (worker_client_id(task_queue_id), scaler_client_id(task_queue_id)):
            now = auth.client(client_id)
            kept = {name: now[name] for name in ("description", "deleteOnExpiration", "scopes")}
            auth.updateClient(client_id, {**kept, "expires": expiry(expires_in)})
            made.append(auth.resetAccessToken(client_id))
    _hand_out(task_queue_id, made[0], made[1], expires_in, key_vault)


def _hand_out(
    task_queue_id: str, worker: Mapping[str, Any], scaler: Mapping[str, Any], expires_in: str, key_vault: str | None
) -> None:
    url = f"{root_url().rstrip('/')}/api/queue/v1/task-queues/{quote(task_queue_id, safe='')}/load"
    (bewit,) = parse_qs(urlsplit(signed_url(scaler, url, duration(expires_in))).query)["bewit"]
    secrets = dict(zip(secret_names(task_queue_id), (worker["accessToken"], bewit), strict=True))
    clients = {
        "taskQueueId": task_queue_id,
        "rootUrl": root_url().rstrip("/"),
        "clientId": worker["clientId"],
        "scopes": worker["scopes"],
        "scalerClientId": scaler["clientId"],
        "scalerScopes": scaler["scopes"],
        "expires": worker["expires"],
    }
    if key_vault is None:
        show({**clients, "loadUrl": url, "secrets": secrets})
        return
    for name, value in secrets.items():
        _put(key_vault, name, value)
        say(f"{name} is in {key_vault}")
    show({**clients, "loadUrl": url, "keyVault": key_vault, "secretNames": list(secrets)})


def _put(key_vault: str, name: str, value: str) -> None:
    """By a file, since other users of the machine can read the arguments of a command."""
    with tempfile.NamedTemporaryFile("w", prefix="secret-") as file:  # readable by its owner alone
        file.write(value)
        file.flush()
        command = ["az", "keyvault", "secret", "set", "--vault-name", key_vault, "--name", name]
        command += ["--file", file.name, "--encoding", "utf-8", "--output", "none"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)  # noqa: S603 - the operator's own az
        except FileNotFoundError:
            fail("az is not installed: leave out --key-vault, and put what is shown into the vault yourself")
    if done.returncode != 0:
        fail(
            f"{name} could not be put into {key_vault}: {done.stderr.strip()}\n"
            "The clients exist. Once the reason is gone: worker-client rotate, with the same --key-vault."
        )
