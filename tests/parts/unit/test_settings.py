"""Settings that cannot be used stop the start with a message that names them, and shows no secret."""

from __future__ import annotations

import base64

import pytest

from shared.base.settings import Settings, SettingsError, load_settings

GOOD = {
    "TASKCLUSTER_ROOT_URL": "https://tc.example.com/",
    "ROOT_ACCESS_TOKEN": "rrrrootTokenOfTheTestsOnly-0123456789_44",
    "MESSAGE_SIGNING_KEYS": "the-first-of-the-two-signing-keys, the-other-of-the-two-signing-keys",
    "ACCESS_TOKEN_KEYS": base64.urlsafe_b64encode(bytes(range(224, 256))).decode(),
    "STORAGE_CONNECTION_STRING": "AccountName=name;AccountKey=a2V5",
    "SERVICEBUS_CONNECTION_STRING": "Endpoint=sb://name.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=k",
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets an environment that has nothing but good settings."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in GOOD.items():
        monkeypatch.setenv(name, value)


def test_good_settings() -> None:
    settings = load_settings()
    assert settings.root_url == "https://tc.example.com"
    assert [key.get_secret_value() for key in settings.message_signing_keys] == [
        "the-first-of-the-two-signing-keys",
        "the-other-of-the-two-signing-keys",
    ]
    assert "rrrr" not in repr(settings)


def test_a_key_vault_reference_that_was_not_resolved_is_called_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCESS_TOKEN_KEYS", "ROOT_ACCESS_TOKEN"):
        monkeypatch.setenv(name, "@Microsoft.KeyVault(SecretUri=https://kv-abc.vault.azure.net/secrets/x/)")
    with pytest.raises(SettingsError, match=r"ACCESS_TOKEN_KEYS, ROOT_ACCESS_TOKEN: Azure has not replaced") as raised:
        load_settings()
    assert "kv-abc" not in str(raised.value)


@pytest.mark.parametrize("name", sorted({*GOOD} - {"STORAGE_CONNECTION_STRING", "SERVICEBUS_CONNECTION_STRING"}))
def test_a_missing_setting(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(name)
    with pytest.raises(SettingsError, match=f"^{name}: is missing$"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ROOT_ACCESS_TOKEN", "secret"),
        ("ROOT_ACCESS_TOKEN_PREVIOUS", "secret with spaces, long enough"),
        ("ROOT_ACCESS_TOKEN", "a" * 44),
        ("ROOT_ACCESS_TOKEN_PREVIOUS", "ab" * 22),
        ("MESSAGE_SIGNING_KEYS", " , "),
        ("MESSAGE_SIGNING_KEYS", "a"),
        ("MESSAGE_SIGNING_KEYS", "abcdefghijklmnopqrstu"),
        ("MESSAGE_SIGNING_KEYS", "changemechangemechangeme"),
        ("MESSAGE_SIGNING_KEYS", f"{GOOD['MESSAGE_SIGNING_KEYS']},a"),
        ("ACCESS_TOKEN_KEYS", base64.urlsafe_b64encode(bytes(32)).decode()),
        ("ACCESS_TOKEN_KEYS", "secret"),
        ("ACCESS_TOKEN_KEYS", f"{GOOD['ACCESS_TOKEN_KEYS']},secret"),
        ("STORAGE_CONNECTION_STRING", "secret"),
        ("STORAGE_CONNECTION_STRING", "AccountName=secret"),
        ("SERVICEBUS_CONNECTION_STRING", "secret"),
        ("CLAIM_TIMEOUT_SECONDS", "secret"),
        ("CLAIM_TIMEOUT_SECONDS", "0"),
        ("LONG_POLL_SECONDS", "-1"),
        ("TOPIC_PREFIX", "a secret"),
    ],
)
def test_a_bad_setting(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=f"^{name}: ") as refused:
        load_settings()
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("one", "other"),
    [("STORAGE_CONNECTION_STRING", "STORAGE_ACCOUNT_NAME"), ("SERVICEBUS_CONNECTION_STRING", "SERVICEBUS_NAMESPACE")],
)
def test_one_way_to_each_service(one: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(other, "name")
    with pytest.raises(SettingsError, match=f"exactly one of {one} and {other}"):
        load_settings()
    monkeypatch.delenv(one)
    load_settings()
    monkeypatch.delenv(other)
    with pytest.raises(SettingsError, match=f"exactly one of {one} and {other}"):
        load_settings()


def test_no_warnings_by_default() -> None:
    assert load_settings().warnings() == []
    assert load_settings().first_claim == load_settings().claim_timeout


@pytest.mark.parametrize("name", ["CLAIM_TIMEOUT_SECONDS", "FIRST_CLAIM_SECONDS"])
def test_a_claim_that_is_too_short_for_generic_worker_is_warned_of(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "210")
    assert load_settings().warnings() == []
    monkeypatch.setenv(name, "209")
    (warning,) = load_settings().warnings()
    assert warning.startswith(f"{name} is 209")
