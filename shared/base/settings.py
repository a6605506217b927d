"""The app settings. A bad or missing one stops the start with a message that names it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

from shared.base.errors import ServiceError
from shared.base.types import UploadMode
from shared.base.vault import Vault


class SettingsError(ServiceError, ValueError):
    """The settings cannot be used; the message names each bad one and never shows a secret's value."""


SHORTEST_FOR_WORKERS = 210
"""Seconds of the shortest claim that generic-worker renews: it renews a claim some minutes before its end."""
_ROOT_URL = r"^https?://[^/?#\s]+/?$"
_URL = r"^https?://[^?#\s]+$"
_ISSUER = r"^(https://[^?#\s]+|http://(localhost|127\.0\.0\.1)(:\d+)?(/[^?#\s]*)?)?$"
_NAME = r"^[A-Za-z0-9._-]{1,40}$"
_REFERENCE = "@Microsoft.KeyVault("
_LEAST_LENGTH = 22
"""Fewest characters of a secret: 128 bits in base64."""
_LEAST_DIFFERENT = 8
"""Fewest different characters of a secret: a random one almost certainly has as many."""


def _refuse_weak(secret: str) -> None:
    """Raises ValueError for what was typed by hand or left as a placeholder."""
    if len(secret) < _LEAST_LENGTH or len(set(secret)) < _LEAST_DIFFERENT:
        raise ValueError(
            f"at least {_LEAST_LENGTH} characters, {_LEAST_DIFFERENT} different ones among them, are needed for each, "
            "made at random"
        )


def _parts(connection_string: SecretStr) -> set[str]:
    """Returns the parts of a connection string, without the values."""
    return {part.partition("=")[0].strip() for part in connection_string.get_secret_value().split(";")}


def _token(value: SecretStr) -> SecretStr:
    token = value.get_secret_value()
    if re.fullmatch(r"[A-Za-z0-9_-]{22,66}", token) is None:
        raise ValueError("22 to 66 characters of A-Z a-z 0-9 _ - are needed")
    _refuse_weak(token)
    return value


def _split(value: object) -> object:
    """Returns the words of a list that is separated by commas."""
    return [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else value


def _keys(value: list[SecretStr]) -> list[SecretStr]:
    if not value:
        raise ValueError("at least one key is needed")
    for key in value:
        _refuse_weak(key.get_secret_value())
    return value


def _encryption_keys(value: list[SecretStr]) -> list[SecretStr]:
    Vault([key.get_secret_value() for key in value])
    return value


def _storage_account(value: SecretStr) -> SecretStr:
    if not {"UseDevelopmentStorage", "AccountKey"} & _parts(value):
        raise ValueError("AccountName=…;AccountKey=… is needed, or UseDevelopmentStorage=true")
    return value


def _namespace(value: SecretStr) -> SecretStr:
    if "Endpoint" not in _parts(value):
        raise ValueError("Endpoint=sb://… is needed")
    return value


_Token = Annotated[SecretStr, AfterValidator(_token)]
_Words = Annotated[list[SecretStr], BeforeValidator(_split)]
_Keys = Annotated[_Words, AfterValidator(_keys)]
_EncryptionKeys = Annotated[_Words, AfterValidator(_encryption_keys), AfterValidator(_keys)]


class Settings(BaseModel):
    """Every setting that the app reads, by its name in upper case. What each means: docs/settings.md."""

    model_config = ConfigDict(hide_input_in_errors=True, validate_default=True)

    taskcluster_root_url: str = Field(pattern=_ROOT_URL)
    root_access_token: _Token
    root_access_token_previous: _Token | None = None
    message_signing_keys: _Keys
    access_token_keys: _EncryptionKeys
    storage_connection_string: Annotated[SecretStr, AfterValidator(_storage_account)] | None = None
    storage_account_name: str | None = None
    storage_account_key: SecretStr | None = None
    servicebus_connection_string: Annotated[SecretStr, AfterValidator(_namespace)] | None = None
    servicebus_namespace: str | None = None
    managed_identity_client_id: str | None = None
    topic_prefix: str = Field(default="", pattern=r"^[A-Za-z0-9._/-]{0,100}$")
    event_size_limit: int = Field(default=256_000, ge=10_000)
    claim_timeout_seconds: float = Field(default=1200, ge=1, le=86_400)
    first_claim_seconds: float | None = Field(default=None, ge=1, le=86_400)
    deadline_delay_seconds: float = Field(default=60, ge=0, le=3600)
    long_poll_seconds: float = Field(default=20, ge=0, le=25)
    idle_poll_interval_seconds: float = Field(default=2, gt=0, le=60)
    max_task_deadline_days: int = Field(default=5, ge=1, le=365)
    starvation_seconds: float = Field(default=0, ge=0)
    poll_visibility_seconds: int = Field(default=300, ge=1, le=604_800)
    audit_retention_days: int = Field(default=30, ge=1, le=3660)
    artifact_upload_mode: UploadMode = "auto"
    artifact_relay_limit_bytes: int = Field(default=1024 * 1024, ge=1024, le=200 * 1024 * 1024)
    serves: Literal["calls", "uploads"] = "calls"
    uploads_root_url: str | None = Field(default=None, pattern=_ROOT_URL)
    public_artifact_base_url: str | None = Field(default=None, pattern=_URL)
    max_concurrent_calls: int = Field(default=100, ge=4)
    max_long_polls: int = Field(default=200, ge=1)
    max_followed_resolutions: int = Field(default=8, ge=0, le=64)
    definition_cache_bytes: int = Field(default=64 * 1024 * 1024, ge=0)
    console_sources: str = Field(default="", pattern=r"^(https?://[A-Za-z0-9.*-]+(:\d+)?( +|$))*$")
    openid_issuer: str = Field(default="", pattern=_ISSUER)
    openid_client_id: str = ""
    openid_name: str = Field(default="openid", pattern=_NAME)
    openid_scopes: str = Field(
        default="openid profile offline_access", pattern=r"^openid( [\x21\x23-\x5b\x5d-\x7e]+)*$"
    )
    openid_user_claim: str = Field(default="sub", pattern=r"^[A-Za-z0-9_.-]+$")
    openid_roles: str = Field(default="", pattern=r"^(\s*[^\s=]+=[\x21-\x7e]+)*\s*$")
    openid_workload_issuer: str = Field(default="", pattern=_ISSUER)
    openid_workload_name: str = Field(default="github", pattern=_NAME)
    app_version: str = "development"
    applicationinsights_connection_string: SecretStr | None = None
    otel_exporter_otlp_endpoint: str | None = Field(default=None, pattern=_URL)
    otel_sdk_disabled: bool = False

    @model_validator(mode="before")
    @classmethod
    def _resolved(cls, values: object) -> object:
        """Refuses unresolved Key Vault references: if Azure cannot resolve one, it passes on the reference itself."""
        if isinstance(values, dict):
            unresolved = sorted(name.upper() for name, value in values.items() if str(value).startswith(_REFERENCE))
            if unresolved:
                raise SettingsError(
                    f"{', '.join(unresolved)}: Azure has not replaced the Key Vault reference by its secret. The app's "
                    "identity may not read the vault yet, or the secret is not there: infra/hooks/resolve-secrets.sh "
                    "waits for it, and docs/operations.md says more"
                )
        return values

    def model_post_init(self, context: Any, /) -> None:
        if (self.storage_connection_string is None) == (self.storage_account_name is None):
            raise SettingsError("set exactly one of STORAGE_CONNECTION_STRING and STORAGE_ACCOUNT_NAME")
        if (self.servicebus_connection_string is None) == (self.servicebus_namespace is None):
            raise SettingsError("set exactly one of SERVICEBUS_CONNECTION_STRING and SERVICEBUS_NAMESPACE")
        if bool(self.openid_issuer) != bool(self.openid_client_id):
            raise SettingsError("set both of OPENID_ISSUER and OPENID_CLIENT_ID, or neither")
        if self.openid_issuer and not self.openid_role_pairs:
            raise SettingsError("OPENID_ROLES: at least one pair is needed, or nobody who signs in may do anything")

    @property
    def root_url(self) -> str:
        """The root URL without a trailing slash."""
        return self.taskcluster_root_url.rstrip("/")

    @property
    def relay_root_url(self) -> str:
        """The root URL of relayed uploads, without a trailing slash."""
        return (self.uploads_root_url or self.root_url).rstrip("/")

    @property
    def relayed_at_most(self) -> int:
        """The most bytes of an upload whose length is stated that the mode `auto` relays. It is 0 if uploads have an
        app of their own, whose instances have the memory for one upload at a time."""
        return 0 if self.uploads_root_url else self.artifact_relay_limit_bytes

    @property
    def openid_role_pairs(self) -> list[tuple[str, str]]:
        """OPENID_ROLES: values of claims, each with a role."""
        return [(value, role) for value, _, role in (pair.partition("=") for pair in self.openid_roles.split())]

    @property
    def exports_telemetry(self) -> bool:
        """Whether traces, metrics or logs go anywhere."""
        return not self.otel_sdk_disabled and (
            self.applicationinsights_connection_string is not None or self.otel_exporter_otlp_endpoint is not None
        )

    @property
    def claim_timeout(self) -> timedelta:
        return timedelta(seconds=self.claim_timeout_seconds)

    @property
    def first_claim(self) -> timedelta:
        """How long a claim lasts until it is renewed for the first time."""
        return timedelta(seconds=self.first_claim_seconds or self.claim_timeout_seconds)

    def warnings(self) -> list[str]:
        """Warnings for the log at the start: settings that work, but perhaps not as the operator expects."""
        return [
            f"{name} is {seconds:g}: generic-worker never renews claims shorter than {SHORTEST_FOR_WORKERS} s, and "
            "loses every task that takes longer"
            for name, seconds in (
                ("CLAIM_TIMEOUT_SECONDS", self.claim_timeout_seconds),
                ("FIRST_CLAIM_SECONDS", self.first_claim_seconds or SHORTEST_FOR_WORKERS),
            )
            if seconds < SHORTEST_FOR_WORKERS
        ]


def load_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Returns the settings from the environment. Names are matched in upper or lower case, and an empty value counts as
    unset. Raises SettingsError, which names everything that is wrong."""
    given = {name.lower(): text for name, text in environment.items() if text}
    try:
        return Settings.model_validate({name: given[name] for name in Settings.model_fields if name in given})
    except ValidationError as error:
        lines = []
        for problem in json.loads(error.json(include_input=False, include_url=False, include_context=False)):
            name = str(problem["loc"][0]).upper() if problem["loc"] else "settings"
            text = "is missing" if problem["type"] == "missing" else problem["msg"]
            lines.append(f"{name}: {text}")
        raise SettingsError("; ".join(lines)) from None
