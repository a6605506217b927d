"""docs/settings.md and local.settings.example.json say what shared/base/settings.py says, and the example works."""

import json

import pytest

from shared.base.settings import Settings, load_settings
from tools.local import settings_docs
from tools.local.appsettings import ADDRESS_SETTINGS, new_secrets


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (settings_docs.DOCUMENT.read_text(), settings_docs.settings_table()),
        (settings_docs.EXAMPLE.read_text(), settings_docs.example()),
        (settings_docs.DEPLOYED.read_text(), settings_docs.deployed()),
    ],
    ids=["docs/settings.md", "local.settings.example.json", "infra/settings.json"],
)
def test_the_files_are_up_to_date(written: str, wanted: str) -> None:
    assert written == wanted, "run: python -m tools.local.settings_docs"


def test_the_example_starts_the_app_with_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    example: dict[str, str] = json.loads(settings_docs.EXAMPLE.read_text())["Values"]
    for name, value in example.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    for name, field in Settings.model_fields.items():
        if name.upper() not in settings_docs.EXAMPLE_VALUES:
            assert getattr(settings, name) == field.default, name


def test_what_the_stack_sets_are_settings_of_the_app() -> None:
    known = {name.upper() for name in Settings.model_fields} | set(settings_docs.HOST_SETTINGS)
    assert known.issuperset(new_secrets())
    assert known.issuperset(ADDRESS_SETTINGS)
