"""Keeps a sample of what this version stores: once, before its tag."""

from __future__ import annotations

import sys
from unittest.mock import patch

from tests.parts.samples.kept import FOLDER, save, written
from tests.parts.samples.story import answers, many_lives, task_ids
from tests.promises.simulator import expiring
from tests.promises.simulator.world import unordered
from tools.local.release import version


def sample() -> dict[str, object]:
    """Returns what the present code stores, with its answers."""
    world = unordered()
    with patch.object(expiring, "LARGE", {}):  # a definition of 1 MB would make the file as large
        world.run(many_lives(world))
    kept = written(world.memory)
    (given,) = world.run(answers(world.process(), task_ids(world.rows("Tasks"))))
    return {**kept, "answers": given}


if __name__ == "__main__":
    path = FOLDER / f"storage-{version()}.json.gz"
    if path.exists() and "--again" not in sys.argv:
        sys.exit(f"{path.name} is there already: `--again` writes it anew, until that version is released")
    save(sample(), path)
    print(path)
