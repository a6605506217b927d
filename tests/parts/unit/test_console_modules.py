"""The console's modules import each other in no circle: each can be read, and loaded, after those that it needs."""

import re
from pathlib import Path

from tools.local.state import ROOT

CONSOLE = ROOT / "console"
_IMPORT = re.compile(r'^(?:import|export)\b[^;]*?\bfrom "(\.[^"]+)"', re.MULTILINE)


def _imports() -> dict[Path, list[Path]]:
    """Returns what each module of the console loads when it is loaded itself."""
    modules = [path for path in CONSOLE.rglob("*.js") if "vendor" not in path.parts]
    return {path: [(path.parent / name).resolve() for name in _IMPORT.findall(path.read_text())] for path in modules}


def test_no_module_of_the_console_imports_itself_by_way_of_others() -> None:
    imports = _imports()
    assert sum(map(len, imports.values())) > len(imports), "imports are found"
    left = dict(imports)
    while ready := [path for path, needs in left.items() if not any(one in left for one in needs)]:
        for path in ready:
            del left[path]
    assert [str(path.relative_to(ROOT)) for path in left] == []
