"""The app settings. A bad or missing one stops the start with a message that names it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from shared.base.errors import ServiceError
from shared.base.types import UploadMode
from shared.base.vault import Vault


class SettingsError(ServiceError, ValueError):
    """The settings cannot be used; the message names each bad one and never shows a secret's value."""


SHORTEST_FOR_WORKERS = 210
"""Seconds of the shortest claim that generic-worker renews: it renews a claim some minutes before its end."""
_ISSUER = r"^(https://[^?#\s]+|http://(localhost|127\.0\.0\.1)(:\d+)?(/[^?#\s]*)?)?$"
_REFERENCE = "@Microsoft.KeyVault("
_Words = list[SecretStr]


class Settings(BaseModel):
    """Every setting that the app reads, by its name in upper case (docs/settings.md)."""

    model_config = ConfigDict(hide_input_in_errors=True, validate_default=True)

    taskcluster_root_url: str = Field(
        pattern=r"^https?://[^/?#\s]+/?$",
        description="Root URL of the deployment, as clients sign it: scheme, host and port, no path.",
    )
    root_access_token: SecretStr = Field(
        description="Access token of the root client: 22 to 66 characters of A-Z a-z 0-9 _ -. "
        "The queue signs task credentials with it."
    )
    root_access_token_previous: SecretStr | None = Field(
        default=None,
        description="The root client's token before a rotation: credentials signed with it stay valid until they "
        "expire.",
    )
    message_signing_keys: _Words = Field(
        description="Keys that sign pending messages and upload URLs: at least 22 characters each, at random, "
        "separated by commas; the first signs, all verify.",
    )
    access_token_keys: _Words = Field(
        description="Keys (32 bytes in URL-safe base64) that encrypt clients' access tokens at rest, separated by "
        "commas; the first encrypts, all decrypt.",
    )
    storage_connection_string: SecretStr | None = Field(
        default=None,
        description="Connection string of the storage account. Leave it out to use the identity with "
        "STORAGE_ACCOUNT_NAME.",
    )
    storage_account_name: str | None = Field(
        default=None, description="Storage account, when the app's managed identity is used instead of a key."
    )
    storage_account_key: SecretStr | None = Field(
        default=None,
        description="Account key for signed URLs, where user delegation cannot serve; everything else uses the "
        "identity.",
    )
    servicebus_connection_string: SecretStr | None = Field(
        default=None,
        description="Connection string of the Service Bus namespace. Leave it out to use the identity with "
        "SERVICEBUS_NAMESPACE.",
    )
    servicebus_namespace: str | None = Field(
        default=None,
        description="Fully qualified Service Bus namespace, when the app's managed identity is used.",
    )
    managed_identity_client_id: str | None = Field(
        default=None, description="Client id of the user-assigned managed identity, when there is one."
    )
    topic_prefix: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9._/-]{0,100}$",
        description="Prefix of the event topics' names.",
    )
    event_size_limit: int = Field(
        default=256_000,
        ge=10_000,
        description="Bytes that an event may have in the namespace's tier (Standard 256 KB, Premium more).",
    )
    claim_timeout_seconds: float = Field(
        default=1200,
        ge=1,
        le=86_400,
        description="How long a claim lasts until it must be renewed. generic-worker never renews claims that are "
        "shorter than 210 s; a warning is logged at the start.",
    )
    first_claim_seconds: float | None = Field(
        default=None,
        ge=1,
        le=86_400,
        description="How long a claim lasts until it is renewed for the first time; CLAIM_TIMEOUT_SECONDS if not set. "
        "If shorter, a task that was given to a dead worker is retried sooner, and every other worker renews "
        "once more. At least 240 s for generic-worker and 360 s for scriptworker: docs/workers.md.",
    )
    deadline_delay_seconds: float = Field(
        default=60, ge=0, le=3600, description="How long after its deadline a task is resolved by it."
    )
    long_poll_seconds: float = Field(
        default=20, ge=0, le=25, description="How long claimWork waits for work; clients give up after 30 s."
    )
    idle_poll_interval_seconds: float = Field(
        default=2,
        gt=0,
        le=60,
        description="Pause between two polls of a pool's queues while a worker waits, after half a minute without "
        "work; until then 1 s, or half of this if that is less.",
    )
    max_task_deadline_days: int = Field(
        default=5, ge=1, le=365, description="How far in the future a task's deadline may be."
    )
    starvation_seconds: float = Field(
        default=0,
        ge=0,
        description="When not 0: a band whose oldest task has waited longer than this goes first.",
    )
    poll_visibility_seconds: int = Field(
        default=300, ge=1, le=604_800, description="How long a message polled by a signed URL stays hidden."
    )
    audit_retention_days: int = Field(
        default=30,
        ge=1,
        le=3660,
        description="How many days it is known who changed a task, a group, a worker, a client or a role.",
    )
    artifact_upload_mode: UploadMode = Field(
        default="auto",
        description="How bare PUTs of `s3` artifacts reach the blob: straight (`direct`), through the relay (`relay`), "
        "or by whether the relay is this app and is certain to take the contentLength that is stated (`auto`). What "
        "states none goes through the relay.",
    )
    artifact_relay_limit_bytes: int = Field(
        default=1024 * 1024,
        ge=1024,
        le=200 * 1024 * 1024,
        description="The largest upload that the relay takes, 413 beyond. A process holds twice as much at a time, and "
        "32 MiB at least. The Functions host of the app that takes uploads has to let as much pass "
        "(FUNCTIONS_REQUEST_BODY_SIZE_LIMIT).",
    )
    serves: Literal["calls", "uploads"] = Field(
        default="calls",
        description="What this app does: everything (`calls`), or nothing but to take relayed uploads, as an app of "
        "their own does (`uploads`): docs/artifacts.md.",
    )
    uploads_root_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^/?#\s]+/?$",
        description="Where the app that serves `uploads` is, for the one that serves `calls`, which takes none then. "
        "Empty: this app takes relayed uploads itself.",
    )
    public_artifact_base_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^?#\s]+$",
        description="Where `public/` artifacts can be read without a signature (a CDN or a public container).",
    )
    max_concurrent_calls: int = Field(
        default=100,
        ge=4,
        description="Calls that a process handles at a time, long polls not counted. Up to twenty times as many wait "
        "for their turn, 15 seconds at most; what is more gets 503 with `Retry-After`. From three quarters of it on, "
        "long polls end early, and new ones look for work only once and are answered 5 seconds later.",
    )
    max_long_polls: int = Field(
        default=200,
        ge=1,
        description="Long polls that a process holds at a time. Beyond that the caller with the most loses one.",
    )
    max_followed_resolutions: int = Field(
        default=8,
        ge=0,
        le=64,
        description="Resolutions of tasks that a process follows up itself at a time, as soon as the call is answered: "
        "dependents begin without waiting for a message. 0 leaves all to the messages, as a platform needs that stops "
        "a process once it has answered.",
    )
    definition_cache_bytes: int = Field(
        default=64 * 1024 * 1024, ge=0, description="Bytes of memory for definitions that a process keeps."
    )
    console_sources: str = Field(
        default="",
        pattern=r"^(https?://[A-Za-z0-9.*-]+(:\d+)?( +|$))*$",
        description="Origins that the console's pages may read besides this service, separated by spaces: where "
        "artifacts are stored (known without saying), and where workers serve live logs themselves.",
    )
    openid_issuer: str = Field(
        default="",
        pattern=_ISSUER,
        description="Issuer of the OpenID Connect provider with which people sign in to the console, exactly as its "
        "tokens name it: docs/console.md. Empty: nobody can.",
    )
    openid_client_id: str = Field(
        default="", description="The console's client id (application id) at the provider: a public client with PKCE."
    )
    openid_name: str = Field(
        default="openid",
        pattern=r"^[A-Za-z0-9._-]{1,40}$",
        description="The provider's name on the button, and in the client ids `login/<name>/<user>`.",
    )
    openid_scopes: str = Field(
        default="openid profile offline_access",
        pattern=r"^openid( [\x21\x23-\x5b\x5d-\x7e]+)*$",
        description="What the console asks the provider for, `openid` first.",
    )
    openid_user_claim: str = Field(
        default="sub",
        pattern=r"^[A-Za-z0-9_.-]+$",
        description="The claim of ID tokens that names a person for good, and that users cannot change.",
    )
    openid_roles: str = Field(
        default="",
        pattern=r"^(\s*[^\s=]+=[\x21-\x7e]+)*\s*$",
        description="Who may do what: pairs `value=role` separated by spaces. A person whose claims `groups` or "
        "`roles` have the value assumes the role of this deployment; the value `*` stands for all who sign in.",
    )
    openid_workload_issuer: str = Field(
        default="",
        pattern=_ISSUER,
        description="Issuer of ID tokens with which workloads sign in, jobs of GitHub Actions for instance "
        "(`https://token.actions.githubusercontent.com`): docs/security-auth.md. Their audience is "
        "TASKCLUSTER_ROOT_URL, without a slash at its end. Empty: none can.",
    )
    openid_workload_name: str = Field(
        default="github",
        pattern=r"^[A-Za-z0-9._-]{1,40}$",
        description="How the roles of workloads begin: a token's subject gives the role `<name>:<subject>`, and the "
        "client id `workload/<name>/<subject>`.",
    )
    app_version: str = Field(
        default="development",
        description="Name of this build, a tag or a commit: `build` of the version endpoint, beside the version.",
    )
    applicationinsights_connection_string: SecretStr | None = Field(
        default=None,
        description="Application Insights that gets traces, metrics and logs. "
        "With APPLICATIONINSIGHTS_AUTHENTICATION_STRING by managed identity.",
    )
    otel_exporter_otlp_endpoint: str | None = Field(
        default=None,
        pattern=r"^https?://[^?#\s]+$",
        description="OTLP collector (HTTP) that gets traces, metrics and logs. Other OTEL_* variables are "
        "OpenTelemetry's own: docs/observability.md.",
    )
    otel_sdk_disabled: bool = Field(default=False, description="Turns all exporters off.")

    @field_validator("message_signing_keys", "access_token_keys", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return [word.strip() for word in value.split(",") if word.strip()]
        return value

    @field_validator("message_signing_keys", "access_token_keys")
    @classmethod
    def _not_empty(cls, value: list[SecretStr]) -> list[SecretStr]:
        if not value:
            raise ValueError("at least one key is needed")
        return value

    @field_validator("message_signing_keys")
    @classmethod
    def _signing_keys(cls, value: list[SecretStr]) -> list[SecretStr]:
        for key in value:
            _refuse_weak(key.get_secret_value())
        return value

    @field_validator("access_token_keys")
    @classmethod
    def _encryption_keys(cls, value: list[SecretStr]) -> list[SecretStr]:
        Vault([key.get_secret_value() for key in value])
        for key in value:
            _refuse_weak(key.get_secret_value())
        return value

    @field_validator("storage_connection_string")
    @classmethod
    def _storage_account(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not {"UseDevelopmentStorage", "AccountKey"} & _parts(value):
            raise ValueError("AccountName=…;AccountKey=… is needed, or UseDevelopmentStorage=true")
        return value

    @field_validator("servicebus_connection_string")
    @classmethod
    def _namespace(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and "Endpoint" not in _parts(value):
            raise ValueError("Endpoint=sb://… is needed")
        return value

    @field_validator("root_access_token", "root_access_token_previous")
    @classmethod
    def _token(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            token = value.get_secret_value()
            if not 22 <= len(token) <= 66 or not token.replace("-", "").replace("_", "").isalnum():
                raise ValueError("22 to 66 characters of A-Z a-z 0-9 _ - are needed")
            _refuse_weak(token)
        return value

    @model_validator(mode="before")
    @classmethod
    def _resolved(cls, values: object) -> object:
        """Refuses unresolved Key Vault references: if Azure cannot resolve one, it passes the reference itself to the
        app.
        """
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
        """Without a trailing slash."""
        return self.taskcluster_root_url.rstrip("/")

    @property
    def relay_root_url(self) -> str:
        """Where relayed uploads go, without a trailing slash."""
        return (self.uploads_root_url or self.root_url).rstrip("/")

    @property
    def relayed_at_most(self) -> int:
        """Bytes of an upload that `auto` relays although its length is stated: none through an app of their own, whose
        instances have the memory for one upload at a time.
        """
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
    """The parts of a connection string, without the values."""
    return {part.partition("=")[0].strip() for part in connection_string.get_secret_value().split(";")}


def load_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings from the environment. Names are matched in upper or lower case, and an empty value counts as unset.
    Raises SettingsError, which names everything that is wrong.
    """
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
