"""Renews the pictures of docs/console: `python -m tests.promises.console.pictures`.

Runs the tests that look at every page, and keeps some of what they have seen as WebP, which Chromium makes.
"""

from __future__ import annotations

import base64
import subprocess
import sys

from playwright.sync_api import Page, sync_playwright

from tests.promises.console.browser import launched
from tests.promises.console.test_pages import PICTURES
from tools.local.state import ROOT

FOLDER = ROOT / "docs" / "console"
KEPT = ("home", "group", "graph", "task", "group-phone")
"""Those that the documents show, or that say how a page looks elsewhere."""
MOST_BYTES = 250_000
"""Of all of them together."""

_ENCODE = """async (source) => {
  const image = new Image();
  image.src = source;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.toDataURL("image/webp", 0.5);
}"""


def encoded(page: Page, picture: bytes) -> bytes:
    """Returns a PNG as WebP."""
    source = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
    return base64.b64decode(str(page.evaluate(_ENCODE, source)).partition(",")[2])


def main() -> int:
    """Returns the exit code of the tests."""
    tests = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "large", "tests/promises/console/test_pages.py"]
    code = subprocess.run(tests, cwd=ROOT, check=False).returncode
    if code != 0:
        return code
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright, launched(playwright) as browser:
        page = browser.new_page()
        for name in KEPT:
            (FOLDER / f"{name}.webp").write_bytes(encoded(page, (PICTURES / f"{name}.png").read_bytes()))
    print(f"{sum(path.stat().st_size for path in FOLDER.iterdir()):,} of {MOST_BYTES:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
