"""Writes the kept text `fates.txt`: which misplaced rows are left, and when. .venv/bin/python -m
tests.promises.simulator.fates writes it anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.promises.simulator.misplaced import MISPLACED, Life, life
from tests.promises.simulator.test_short_pages import one_row_a_page
from tests.promises.simulator.world import unordered

KEPT = Path(__file__).parent / "fates.txt"
YOUNG, OLD = 5.0, 660.0
"""Ages in seconds of a row whose call may still be under way, and of one that is an orphan of a call that died."""
HOW: Mapping[str, tuple[float, bool]] = {
    "young": (YOUNG, False),
    "old": (OLD, False),
    "old, messages lost": (OLD, True),
}
"""By case, how old the row is when the tasks go on, and whether messages of what waits are lost besides."""


def is_message(name: str) -> bool:
    """Whether it is a message, and no row."""
    return "message" in name


@cache
def undisturbed(how: str, without_messages: bool = False) -> Life:
    """Returns what happens if nothing is misplaced."""
    return lived("message" if without_messages else "", how)


@cache
def lived(name: str, how: str, *, are_short: bool = False) -> Life:
    """Returns what happens if that is misplaced."""
    world = unordered()
    if are_short:
        one_row_a_page(world)
    age, loses = HOW[how]
    work = life(world, MISPLACED.get(name), age, counts_messages=not is_message(name), loses=loses)
    (told,) = world.run(work)
    return told


NAMES = [name for name in MISPLACED if not is_message(name) and not name.startswith("expiry")]
"""Rows that the kept text is about, as nothing deletes them at a time of their own."""


def of_row(name: str) -> str:
    """Returns which kinds of rows are left in addition, a while after it was misplaced and at the end of its group."""
    fates: defaultdict[str, list[str]] = defaultdict(list)
    for how in HOW:
        moments = zip(lived(name, how).rows, undisturbed(how).rows, strict=True)
        left = [", ".join(sorted(key.split("~")[0] for _, key in rows - others)) for rows, others in moments]
        fates[f"{left[0] or 'nothing'}, at the end {left[1] or 'nothing'}"].append(how)
    lines = [f"  {fate}" if len(fates) == 1 else f"  {', '.join(of)}: {fate}" for fate, of in fates.items()]
    return "".join(f"{line}\n" for line in (name, *lines))


if __name__ == "__main__":
    KEPT.write_text("".join(map(of_row, NAMES)))
