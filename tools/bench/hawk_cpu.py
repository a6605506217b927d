"""CPU time of authenticating one request with warm caches, by credential form: `python -m tools.bench.hawk_cpu`.

Measured alone, without HTTP and storage: what remains is parsing, MACs and the expansion of scopes.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.auth import certificates as credentials
from shared.auth import hawk
from shared.auth.authenticate import Authenticator
from shared.auth.clients.rows import Client, StaticClients, root_client
from shared.auth.roles.expansion import Roles

ROUNDS = 2000
LIMIT_MS = 0.5
ROOT_URL = "https://tc.example.com"
TOKEN = "some-token-0123456789abcdef"
NOW = datetime.now(UTC)
TARGET = "/api/queue/v1/task/AAAAAAAAQACAAAAAAAAAAA/runs/0/reclaim"
ROLES = Roles(
    {
        "anonymous": ["queue:status:*", "queue:get-task:*", "queue:get-artifact:public/*"],
        "hook-id:*": ["assume:project:<..>"],
        **{f"project:{n}": [f"queue:route:index.{n}.*", f"secrets:get:{n}/*"] for n in range(200)},
    }
)
AUTHENTICATOR = Authenticator(
    StaticClients(
        [
            root_client("root", TOKEN),
            Client(client_id="worker", access_token=TOKEN, scopes=("assume:hook-id:7", "queue:claim-work:*")),
        ],
        ROLES,
    ),
    ROOT_URL,
    lambda: NOW,
)


def authorization(
    client_id: str, key: str, ext: Mapping[str, Any] | None = None, body: bytes | None = None
) -> dict[str, str]:
    """Headers as a client sends them."""
    kind = "application/json"
    signed = hawk.Signed(
        id=client_id,
        ts=str(int(NOW.timestamp())),
        mac="",
        nonce="abcdef",
        hash="" if body is None else hawk.payload_hash(kind, body).decode(),
        ext="" if ext is None else base64.b64encode(json.dumps(ext).encode()).decode(),
    )
    mac = hawk.calculate_mac(signed, key=key, method="POST", resource=TARGET, site=hawk.Site.of(ROOT_URL)).decode()
    optional = "".join(f', {name}="{value}"' for name, value in (("hash", signed.hash), ("ext", signed.ext)) if value)
    return {
        "authorization": f'Hawk mac="{mac}", id="{client_id}", ts="{signed.ts}", nonce="abcdef"{optional}',
        "content-type": kind,
    }


def temporary(scopes: list[str], number: int = 0) -> dict[str, str]:
    """Headers of a claim's credentials; a new number makes credentials that were never seen."""
    issued = credentials.temporary_credentials(
        client_id=f"task-client/AAAAAAAAQACAAAAAAAAAAA/0/on/g/i{number}/until/1767226800.123",
        scopes=[*credentials.task_scopes(task_id="AAAAAAAAQACAAAAAAAAAAA", run_id=number, scopes=[]), *scopes],
        start=NOW,
        expiry=NOW + timedelta(minutes=20),
        issuer="root",
        issuer_token=TOKEN,
        seed=f"{number:044}",
    )
    return authorization(issued["clientId"], issued["accessToken"], {"certificate": json.loads(issued["certificate"])})


async def measure(requests: list[dict[str, str]], body: bytes, targets: list[str]) -> float:
    """Milliseconds of CPU a request."""
    started = time.process_time()
    for number in range(ROUNDS):
        await AUTHENTICATOR.caller("POST", targets, requests[number % len(requests)], body)
    return (time.process_time() - started) * 1000 / ROUNDS


async def main() -> None:
    body = json.dumps({"payload": "x" * 10_000}).encode()
    one = [TARGET]
    several = [f"{TARGET}?n={number}" for number in range(5)] + one
    many = [f"secrets:get:project/{n}" for n in range(50)]
    cases: dict[str, tuple[list[dict[str, str]], bytes, list[str]]] = {
        "anonymous": ([{}], b"", one),
        "client": ([authorization("worker", TOKEN)], b"", one),
        "client, 10 KB body hashed": ([authorization("worker", TOKEN, {}, body)], body, one),
        "client, six candidate targets": ([authorization("worker", TOKEN)], b"", several),
        "claim, same credentials": ([temporary([])], b"", one),
        "claim, never seen": ([temporary(["assume:hook-id:7"], n) for n in range(ROUNDS)], b"", one),
        "claim of 50 scopes, never seen": ([temporary(many, n) for n in range(ROUNDS)], b"", one),
    }
    for name, (requests, sent, targets) in cases.items():
        cost = await measure(requests, sent, targets)
        print(f"{name:32} {cost:7.3f} ms {'' if cost < LIMIT_MS else '  over the aim of 0.5 ms'}")


if __name__ == "__main__":
    asyncio.run(main())
