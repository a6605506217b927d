"""A stage for the hooks of azd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.promises.infra.azure.cloud import SUBSCRIPTION
from tests.promises.infra.azure.stage import Stage, stage
from tools.local.state import ROOT


@pytest.fixture
def azure(tmp_path: Path) -> Iterator[Stage]:
    """This checkout on a stage where azd has a double, too: what hooks see before the first deployment of `example`."""
    with stage(tmp_path, ROOT) as made:
        made.environment |= {
            "AZURE_ENV_NAME": "example",
            "AZURE_LOCATION": "westeurope",
            "AZURE_SUBSCRIPTION_ID": SUBSCRIPTION,
            "QUEUE_DEPLOYMENTS": str(tmp_path / "deployments"),
        }
        yield made
