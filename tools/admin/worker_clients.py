"""The clients by which a task queue's workers come and go by themselves: `worker-client`.

There are two: the workers' own, which can claim, and the scaler's, which can read how much there is to do. The scaler
gets no token but a bewit, the signature of the one URL that it asks for (docs/workers-azure.md).
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, quote, urlsplit

import typer
from taskcluster.exceptions import TaskclusterRestFailure

from tools.admin.connection import auth_api, root_url
from tools.admin.durations import expiry
from tools.admin.output import fail, say, show
from tools.admin.pool_commands import TaskQueueId
from tools.admin.signing import signed_url

worker_clients = typer.Typer(
    help="Clients for workers that come and go by themselves, and their secrets in a Key Vault.", no_args_is_help=True
)
WORKER_GROUP = json.loads(
    (Path(__file__).parents[2] / "infra" / "workers" / "defaults.json").read_text(encoding="utf-8")
)["workerGroup"]

_LASTING = timedelta(days=36500)
"""How long a bewit is signed for: it ends with its client, which can be prolonged."""
_LASTS = " Its bewit ends with it."
"""In the description of a scaler's client: those of earlier versions signed a bewit with an end of its own."""
_SPELLED = {"-": "--", "_": "-1", "/": "-2"}
_LONGEST_NAME = 127
"""The most characters of the name of a secret in a Key Vault."""

WorkerGroup = Annotated[str, typer.Option("--worker-group", help="The group of the workers' ids.")]
Polling = Annotated[
    bool, typer.Option("--signed-polling", help="Let workers poll by signed URLs, too: one scope more.")
]
ExpiresIn = Annotated[str, typer.Option("--expires-in", help="How long the clients work, and the bewit: 30d, 52w.")]
KeyVault = Annotated[
    str | None,
    typer.Option("--key-vault", help="Put the secrets into this vault by `az`, and show none.", show_default=False),
]


def worker_client_id(task_queue_id: str) -> str:
    """Returns the id of the client of a task queue's workers."""
    return f"worker/{task_queue_id}"


def scaler_client_id(task_queue_id: str) -> str:
    """Returns the id of the client that signs the scaler's URL. The bewit ends with it."""
    return f"scaler/{task_queue_id}"


def secret_names(task_queue_id: str) -> tuple[str, str]:
    """Returns the names in the vault of the workers' access token and of the bewit, as infra/workers/pool.bicep reads
    them. No two task queues have the same, although names of secrets have neither case nor `_` and `/`. Raises
    ValueError for an id that makes them too long for a vault."""
    spelled = "".join(
        _SPELLED.get(each, each if each == each.lower() else f"-{each.lower()}") for each in task_queue_id
    )
    names = f"worker-{spelled}-access-token", f"worker-{spelled}-bewit"
    if len(names[0]) > _LONGEST_NAME:
        raise ValueError(f"the name of its secret would have {len(names[0])} characters, and may have {_LONGEST_NAME}")
    return names


def worker_scopes(task_queue_id: str, worker_group: str, *, signed_polling: bool) -> list[str]:
    """Returns the scopes that a worker needs before it has a claim (contract 2.2)."""
    polling = [f"queue:poll-task-urls:{task_queue_id}"] if signed_polling else []
    return [f"queue:claim-work:{task_queue_id}", f"queue:worker-id:{worker_group}/*", *polling]


def scaler_scopes(task_queue_id: str) -> list[str]:
    """Returns the scopes that taskQueueLoad needs (contract 2.2)."""
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
    secrets = _secret_names(task_queue_id)
    scopes = {
        worker_client_id(task_queue_id): worker_scopes(task_queue_id, worker_group, signed_polling=signed_polling),
        scaler_client_id(task_queue_id): scaler_scopes(task_queue_id),
    }
    with auth_api() as auth:
        there = {client_id: client for client_id in scopes if (client := _existing(auth, client_id)) is not None}
        if len(there) == len(scopes):
            fail(f"the clients of {task_queue_id} exist: worker-client rotate gives them new tokens")
        for client_id, client in there.items():  # a call that has ended half-way, and whose token nobody has got
            if not client["description"].startswith(_description(task_queue_id)):
                fail(f"there is a client {client_id} already, which worker-client create has not made")
        for client_id, held in scopes.items():
            definition = {
                "description": _description(task_queue_id, client_id),
                "expires": expiry(expires_in),
                "scopes": held,
                "deleteOnExpiration": False,
            }
            if client_id in there:
                auth.updateClient(client_id, definition)
            else:
                auth.createClient(client_id, definition)
        _hand_out(auth, task_queue_id, secrets, key_vault)


@worker_clients.command("renew")
def renew(task_queue_id: TaskQueueId, expires_in: ExpiresIn = "52w") -> None:
    """Give both clients a new end. Tokens and bewit stay, so that neither workers nor the scaler notice."""
    with auth_api() as auth:
        worker, scaler = _both(auth, task_queue_id)
        if not scaler["description"].endswith(_LASTS):
            fail("the bewit has an end of its own: worker-client rotate makes one that ends with its client")
        for client in (worker, scaler):
            _prolong(auth, client, client["description"], expires_in)
        show({"taskQueueId": task_queue_id, "expires": auth.client(worker["clientId"])["expires"]})


@worker_clients.command("rotate")
def rotate(task_queue_id: TaskQueueId, expires_in: ExpiresIn = "52w", key_vault: KeyVault = None) -> None:
    """Give both clients new tokens and a new end, and make a new bewit. The old ones end within a minute."""
    secrets = _secret_names(task_queue_id)
    with auth_api() as auth:
        for client in _both(auth, task_queue_id):
            _prolong(auth, client, _description(task_queue_id, client["clientId"]), expires_in)
        _hand_out(auth, task_queue_id, secrets, key_vault)


def _both(auth: Any, task_queue_id: str) -> list[Mapping[str, Any]]:
    return [auth.client(each) for each in (worker_client_id(task_queue_id), scaler_client_id(task_queue_id))]


def _prolong(auth: Any, client: Mapping[str, Any], description: str, expires_in: str) -> None:
    kept = {name: client[name] for name in ("deleteOnExpiration", "scopes")}
    auth.updateClient(client["clientId"], {**kept, "description": description, "expires": expiry(expires_in)})


def _description(task_queue_id: str, client_id: str = "") -> str:
    lasts = _LASTS if client_id == scaler_client_id(task_queue_id) else ""
    return f"Made by `worker-client create {task_queue_id}`.{lasts}"


def _secret_names(task_queue_id: str) -> tuple[str, str]:
    try:
        return secret_names(task_queue_id)
    except ValueError as error:
        fail(str(error))


def _existing(auth: Any, client_id: str) -> Mapping[str, Any] | None:
    try:
        return dict(auth.client(client_id))
    except TaskclusterRestFailure as failure:
        if failure.status_code == HTTPStatus.NOT_FOUND:
            return None
        raise


def _hand_out(auth: Any, task_queue_id: str, secret_names: tuple[str, str], key_vault: str | None) -> None:
    """Gives both clients new tokens. The workers' comes last, when the vault has taken the other secret: a command that
    ends early leaves workers with a token that works. Whatever it leaves, a repeat of `rotate` puts it right."""
    token_name, bewit_name = secret_names
    url = f"{root_url().rstrip('/')}/api/queue/v1/task-queues/{quote(task_queue_id, safe='')}/load"
    scaler = auth.resetAccessToken(scaler_client_id(task_queue_id))
    (bewit,) = parse_qs(urlsplit(signed_url(scaler, url, _LASTING)).query)["bewit"]
    if key_vault is not None:
        _put(key_vault, bewit_name, bewit)
    worker = auth.resetAccessToken(worker_client_id(task_queue_id))
    if key_vault is not None:
        _put(key_vault, token_name, worker["accessToken"])
    clients = {
        "taskQueueId": task_queue_id,
        "rootUrl": root_url().rstrip("/"),
        "clientId": worker["clientId"],
        "scopes": worker["scopes"],
        "scalerClientId": scaler["clientId"],
        "scalerScopes": scaler["scopes"],
        "expires": worker["expires"],
        "loadUrl": url,
    }
    if key_vault is None:
        show({**clients, "secrets": {token_name: worker["accessToken"], bewit_name: bewit}})
    else:
        show({**clients, "keyVault": key_vault, "secretNames": list(secret_names)})


def _put(key_vault: str, name: str, value: str) -> None:
    """Stores a secret in the vault, by a file: other users of the machine can read a command's arguments."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="secret-") as file:  # readable by its owner alone
        file.write(value)
        file.flush()
        command = ["az", "keyvault", "secret", "set", "--vault-name", key_vault, "--name", name]
        command += ["--file", file.name, "--encoding", "utf-8", "--output", "none"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False)  # noqa: S603 - the operator's own az
        except FileNotFoundError:
            fail("az is not installed: leave out --key-vault, and put what is shown into the vault yourself")
    if done.returncode != 0:
        fail(
            f"{name} could not be put into {key_vault}: {done.stderr.strip()}\n"
            "The clients exist. Once the reason is gone: worker-client rotate, with the same --key-vault."
        )
    say(f"{name} is in {key_vault}")
