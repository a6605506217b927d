"""What scriptworker runs for a task: writes files into its artifact folder, says so, and ends as the payload says."""

import gzip
import json
import sys
from pathlib import Path


def main() -> int:
    """Runs with two arguments: the work folder, which has task.json, and the artifact folder."""
    work, artifacts = map(Path, sys.argv[1:])
    payload = json.loads((work / "task.json").read_text())["payload"]
    for name, lines in payload["files"].items():
        path = artifacts / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = "".join(f"{line}\n" for line in range(lines)).encode()
        path.write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
        print(f"wrote {name}")
    return int(payload["exit"])


if __name__ == "__main__":
    sys.exit(main())
