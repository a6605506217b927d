"""Copies the console's libraries and their licences from tools/node_modules to console/vendor: no build step, no CDN.

The versions are those of tools/package-lock.json. `python -m tools.local.console_vendor`, as a step of setting up.
"""

import shutil
from pathlib import Path

FOLDER = Path("console") / "vendor"

LIBRARIES: dict[str, tuple[str, str]] = {
    "preact.js": ("preact", "dist/preact.mjs"),  # components
    "hooks.js": ("preact", "hooks/dist/hooks.mjs"),
    "htm.js": ("htm", "dist/htm.mjs"),  # templates without a compiler
    "dagre.js": ("@dagrejs/dagre", "dist/dagre.esm.js"),  # layout of graphs
    "js-yaml.js": ("js-yaml", "dist/browser/js-yaml.esm.min.mjs"),  # definitions as YAML
    "markdown-it.js": ("markdown-it", "dist/browser/markdown-it.esm.min.mjs"),  # descriptions; bounded for any text
    "ansi-sequence-parser.js": ("ansi-sequence-parser", "dist/index.js"),  # colours of logs
    "json-e.js": ("json-e", "dist/index.js"),  # templates of task actions
}
"""The name of each file in console/vendor, with its package and its path in that."""

BUNDLED = {"markdown-it": ("entities", "linkify-it", "mdurl", "punycode.js", "uc.micro")}
"""Packages that are included in the file of another one, whose licences go with it."""

UNCHECKED = "// @ts-nocheck\n"


def install(root: Path) -> None:
    """Makes console/vendor anew."""
    shutil.rmtree(root / FOLDER, ignore_errors=True)
    (root / FOLDER / "licenses").mkdir(parents=True)
    for name, (package, path) in LIBRARIES.items():
        source = root / "tools" / "node_modules" / package
        text = (source / path).read_text(encoding="utf-8")
        lines = [line for line in text.splitlines(keepends=True) if not line.startswith("//# sourceMappingURL=")]
        (root / FOLDER / name).write_text(
            (UNCHECKED if name.endswith(".js") else "") + "".join(lines), encoding="utf-8"
        )
        for each in (package, *BUNDLED.get(package, ())):
            target = root / FOLDER / "licenses" / f"{each.replace('/', '-').lstrip('@')}.txt"
            _copy_license(root / "tools" / "node_modules" / each, target)


def _copy_license(package: Path, target: Path) -> None:
    found = sorted(path for path in package.iterdir() if path.name.lower().startswith(("license", "copying")))
    if found:
        shutil.copyfile(found[0], target)
    else:  # json-e has no licence file; package.json names the licence
        shutil.copyfile(package / "package.json", target)


if __name__ == "__main__":
    install(Path.cwd())
