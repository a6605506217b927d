"""`worker-client create` and `rotate` that fail half-way leave workers with a token that works, and can be repeated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
import typer
from taskcluster.exceptions import TaskclusterRestFailure

from tools.admin import worker_clients

POOL = "p/w"
WORKER, SCALER = "worker/p/w", "scaler/p/w"
OPTIONS = {"key_vault": "kv", "expires_in": "52w"}


class Failed(Exception):
    """The vault has not taken a secret."""


class Deployment:
    """A fake of the auth API, by its own rules, and of the vault; the call number `fails_at` fails."""

    def __init__(self) -> None:
        self.clients: dict[str, dict[str, Any]] = {}
        self.vault: dict[str, str] = {}
        self.calls: list[str] = []
        self.fails_at: int | None = None
        self.signed_for = timedelta()
        self._tokens = count(1)

    def _check(self, call: str, error: Exception | None = None) -> None:
        self.calls.append(call)
        if len(self.calls) == self.fails_at:
            raise error or TaskclusterRestFailure("storage is not available", None, status_code=503)

    def createClient(self, client_id: str, body: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        self._check(f"create {client_id}")
        if client_id in self.clients:
            raise TaskclusterRestFailure("There is a client already", None, status_code=409)
        self.clients[client_id] = {**body, "clientId": client_id, "accessToken": f"token {next(self._tokens)}"}
        return self.clients[client_id]

    def client(self, client_id: str) -> dict[str, Any]:
        self._check(f"get {client_id}")
        if client_id not in self.clients:
            raise TaskclusterRestFailure("not found", None, status_code=404)
        return self.clients[client_id]

    def updateClient(self, client_id: str, body: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        self._check(f"update {client_id}")
        self.clients[client_id].update(body)
        return self.clients[client_id]

    def resetAccessToken(self, client_id: str) -> dict[str, Any]:  # noqa: N802
        self._check(f"reset {client_id}")
        self.clients[client_id]["accessToken"] = f"token {next(self._tokens)}"
        return dict(self.clients[client_id])

    def put(self, key_vault: str, name: str, value: str) -> None:
        self._check(f"put {name}", Failed())
        self.vault[name] = value

    def signed_url(self, client: dict[str, Any], url: str, span: timedelta) -> str:
        self.signed_for = span
        return f"{url}?bewit={client['accessToken']}"

    def works(self) -> bool:
        """Whether the secrets in the vault are the present ones of the clients."""
        token, bewit = worker_clients.secret_names(POOL)
        return (self.vault.get(token), self.vault.get(bewit)) == (
            self.clients[WORKER]["accessToken"],
            self.clients[SCALER]["accessToken"],
        )


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    made, moments = Deployment(), count(1)

    @contextmanager
    def api() -> Iterator[Deployment]:
        yield made

    monkeypatch.setattr(worker_clients, "auth_api", api)
    monkeypatch.setattr(worker_clients, "root_url", lambda: "https://tc.example.com")
    monkeypatch.setattr(worker_clients, "expiry", lambda span: f"2027-01-01T00:00:{next(moments):02}.000Z")
    monkeypatch.setattr(worker_clients, "signed_url", made.signed_url)
    monkeypatch.setattr(worker_clients, "_put", made.put)
    return made


def create() -> None:
    worker_clients.create(POOL, worker_group="g", signed_polling=False, **OPTIONS)


def rotate() -> None:
    worker_clients.rotate(POOL, **OPTIONS)


def renew() -> None:
    worker_clients.renew(POOL, expires_in="52w")


@pytest.mark.parametrize("number", range(1, 9))
def test_creation_that_fails_anywhere_comes_to_its_end_when_it_is_repeated(
    deployment: Deployment, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment.fails_at = number
    with pytest.raises((TaskclusterRestFailure, Failed)):
        create()
    deployment.fails_at = None
    try:
        create()
    except typer.Exit:
        assert "worker-client rotate" in capsys.readouterr().err
        rotate()
    assert deployment.works()


@pytest.mark.parametrize("number", range(1, 9))
def test_rotation_that_fails_anywhere_leaves_workers_a_token_that_works(deployment: Deployment, number: int) -> None:
    create()
    deployment.calls.clear()
    deployment.fails_at = number
    with pytest.raises((TaskclusterRestFailure, Failed)):
        rotate()
    token, _ = worker_clients.secret_names(POOL)
    if deployment.calls[-1] != f"put {token}":  # the last call: it says what to do
        assert deployment.vault[token] == deployment.clients[WORKER]["accessToken"]
    deployment.fails_at = None
    rotate()
    assert deployment.works()


def test_these_are_all_calls_of_a_rotation_and_of_a_creation(deployment: Deployment) -> None:
    create()
    assert len(deployment.calls) == 8
    deployment.calls.clear()
    rotate()
    assert len(deployment.calls) == 8
    assert deployment.calls[-1].startswith("put ")


def test_renewal_moves_the_end_of_both_clients_and_changes_nothing_that_workers_or_the_scaler_hold(
    deployment: Deployment,
) -> None:
    create()
    vault, before = dict(deployment.vault), {each: dict(client) for each, client in deployment.clients.items()}
    renew()
    assert deployment.vault == vault
    assert deployment.works()
    for client_id, client in deployment.clients.items():
        assert client["expires"] > before[client_id]["expires"]
        assert {**client, "expires": ""} == {**before[client_id], "expires": ""}
