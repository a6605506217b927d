"""Writes the kept text `answers.txt`: what each call and handler answers in each state of a task, and what it changes.
.venv/bin/python -m tests.promises.simulator.answers writes it anew. Its differences are read like those of the code: it
has each refusal with each wrong run, worker, group, task queue and claim (contract 2.4, 4, 5; design 4, 5)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

from shared.queue.tasks.rules import Task
from tests.promises.simulator.ages import Leave, Look
from tests.promises.simulator.probing import Probe
from tests.promises.simulator.situations import A
from tests.promises.simulator.states import CALLS, STATES
from tests.promises.simulator.world import World

KEPT = Path(__file__).parent / "answers.txt"


def answer(state: Leave, call: Look) -> str:
    """Returns what the call answers, and which rows and messages it adds and removes."""
    world = Probe()
    world.run(state(world))
    world.clock.advance(1)
    before = _seen(world)
    task = world.tasks()[A]
    told = world.look(call(world, world.process()))
    answered, _, rest = told.partition(": ")
    _, _, topics = rest.rpartition("; ")
    after = _seen(world)
    parts = [answered if answered not in {"NoneType", "Task", "Claim", "Stored", "Loaded"} else "ok"]
    parts += [_described(world.tasks()[A])] if _described(task) != _described(world.tasks()[A]) else []
    parts += [f"-{each}" for each in sorted((before - after).elements())]
    parts += [f"+{each}" for each in sorted((after - before).elements())]
    parts += [topic.removeprefix("task-") for topic in topics.split(", ") if topic]
    return " ".join(parts)


def _described(task: Task) -> str:
    runs = [f"{run.reason_resolved or run.state}" for run in task.runs]
    until = task.last_run.taken_until if task.runs else None
    return (
        f"[{', '.join(runs) or 'unscheduled'}; {task.priority}{'; until ' + until.strftime('%H:%M') if until else ''}]"
    )


def _seen(world: World) -> Counter[str]:
    """Returns rows and messages about tasks, by their kinds."""
    rows = (
        re.sub(r"~[^~]*$", "", row.key) if row.key.startswith("job") else row.key.split("~")[0]
        for table in ("Tasks", "Groups", "Pools")
        for row in world.rows(table)
    )
    queues = (
        re.sub(r"pending-\w+-", "band ", queue)
        for queue in world.memory.queues.names()
        for _ in world.memory.messages(queue)
    )
    return Counter([*(f"row {each}" for each in rows), *(f"message {each}" for each in queues)])


def of_call(name: str) -> str:
    """Returns the answers of a call, each with the states in which the call gives it."""
    answers: defaultdict[str, list[str]] = defaultdict(list)
    for state in STATES:
        answers[answer(state, CALLS[name])].append(state.__name__)
    most = max(answers, key=lambda given: len(answers[given]))
    lines = [f"  {', '.join(states)}\n    {given}" for given, states in answers.items() if given != most]
    lines.append(f"  {'in all others' if len(answers) > 1 else 'always'}\n    {most}")
    return "".join(f"{line}\n" for line in (name, *lines))


def kept(file: Path) -> dict[str, str]:
    """Returns each paragraph of a kept text by its first line."""
    paragraphs = re.findall(r"^\S.*\n(?: .*\n)*", file.read_text(), re.MULTILINE)
    return {each.partition("\n")[0]: each for each in paragraphs}


if __name__ == "__main__":
    KEPT.write_text("".join(map(of_call, CALLS)))
