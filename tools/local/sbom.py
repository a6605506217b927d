"""The bill of materials of a package: a CycloneDX document of what was installed into it."""

import json
import re
import uuid
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

NAME = "taskcluster-queue-on-azure"
LICENCE = "MPL-2.0"


def document(site_packages: Path, version: str) -> dict[str, Any]:
    """Returns a CycloneDX 1.5 document of the distributions in a folder. The same content gives the same document."""
    found = {_purl(each): each for each in distributions(path=[str(site_packages)])}
    components = [_component(purl, found[purl]) for purl in sorted(found)]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, "\n".join([NAME, version, *sorted(found)]))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": NAME,
                "name": NAME,
                "version": version,
                "licenses": [{"license": {"id": LICENCE}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": NAME, "dependsOn": [component["bom-ref"] for component in components]}],
    }


def text(bill: dict[str, Any]) -> str:
    """Returns the document as it is written to a file."""
    return json.dumps(bill, indent=2, ensure_ascii=False) + "\n"


def _component(purl: str, found: Distribution) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": _name(found),
        "version": found.version,
        "purl": purl,
    }
    licences = list(_licences(found))
    return {**component, "licenses": licences} if licences else component


def _licences(found: Distribution) -> Iterable[dict[str, Any]]:
    if "License-Expression" in found.metadata:
        yield {"expression": found.metadata["License-Expression"]}
        return
    for classifier in found.metadata.get_all("Classifier") or []:
        if classifier.startswith("License :: OSI Approved :: "):
            yield {"license": {"name": classifier.rpartition(" :: ")[2]}}


def _purl(found: Distribution) -> str:
    return f"pkg:pypi/{_name(found)}@{found.version}"


def _name(found: Distribution) -> str:
    """Returns the name of a distribution, normalised as PyPI does."""
    return re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower()
