"""An Azurite that asks for bearer tokens, on https with a certificate made here, and an identity that has them. Azurite
checks a token's issuer, audience and times, not its signature or roles."""

from __future__ import annotations

import base64
import ipaddress
import json
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp
from azure.core.credentials import AccessToken
from azure.core.credentials_async import AsyncTokenCredential
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from shared.store.connection import AzureStorage, Endpoints
from shared.store.http_connections import Connections
from shared.store.pipeline import Transport
from shared.store.wire import Patience
from tests.storage_accounts import own_account
from tools.local.azurite import Azurite

TENANT = "00000000-0000-0000-0000-00000000000a"
AUDIENCE = "https://storage.azure.com"


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Makes files of a certificate for 127.0.0.1 that is its own authority, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "azurite")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths


class Identity(AsyncTokenCredential):
    """Hands out tokens as Microsoft Entra does, except for the signature. `claims` replace the usual ones."""

    def __init__(self, **claims: Any) -> None:
        self._claims = claims
        self.scopes: list[str] = []
        """What tokens were asked for."""

    async def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        """Returns a token for an hour."""
        self.scopes.extend(scopes)
        now = int(datetime.now(UTC).timestamp())
        claims = {
            "aud": AUDIENCE,
            "iss": f"https://sts.windows.net/{TENANT}/",
            "tid": TENANT,
            "oid": "00000000-0000-0000-0000-00000000000b",
            "iat": now - 60,
            "nbf": now - 60,
            "exp": now + 3600,
            **self._claims,
        }
        parts = ({"alg": "RS256", "typ": "JWT"}, claims)
        encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
        return AccessToken(".".join((*encoded, "c2lnbmF0dXJl")), now + 3600)

    async def close(self) -> None:
        """Closes nothing."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Closes nothing."""


def trusting(certificate: Path) -> dict[str, Any]:
    """Returns options of an account whose connections trust this certificate, for the event loop that runs."""
    transport = Transport(Patience())
    context = ssl.create_default_context(cafile=str(certificate))
    transport.session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context), cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
    )
    return {"exchange": Connections(Patience(), trust=lambda: context), "transport": transport}


def open_account(azurite: Azurite, certificate: Path, identity: Identity) -> AzureStorage:
    """Opens an unused account as deployed code does, except for its address and the trusted certificate."""
    name = own_account()
    urls = {service: f"https://127.0.0.1:{port}/{name}" for service, port in azurite.ports.items()}
    return AzureStorage(Endpoints(**urls), identity, **trusting(certificate))
