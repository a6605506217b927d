"""Events that are sent late, from their pointers: they look as if they had been sent at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.base.errors import ApiError
from shared.base.priority import PRIORITIES
from shared.queue.events.announcer import from_json, to_json
from shared.queue.events.rendering import EventMessage, render
from shared.queue.events.rules import TaskEvent
from shared.queue.tasks.rules import Resolved, State
from tests.promises.events.builders import Life

Step = Callable[[Life], list[EventMessage]]

STEPS: dict[str, Step] = {
    "schedule": Life.schedule,
    "claim": Life.claim,
    "reclaim": Life.reclaim,
    "complete": lambda life: life.report(Resolved.COMPLETED),
    "fail": lambda life: life.report(Resolved.FAILED),
    "shut down": lambda life: life.report_exception(Resolved.WORKER_SHUTDOWN),
    "bad payload": lambda life: life.report_exception(Resolved.MALFORMED_PAYLOAD),
    "cancel": Life.cancel,
    "pass deadline": Life.pass_deadline,
    "rerun": Life.rerun,
    "artifact": Life.create_artifact,
    **{f"priority {each}": lambda life, each=each: life.change_priority(each) for each in PRIORITIES},  # type: ignore[misc]
}


def possible(life: Life, name: str) -> bool:
    """Whether the task's state allows the step; transitions refuse the others or do nothing."""
    state = life.task.state
    needs = {
        "claim": state is State.PENDING,
        "artifact": bool(life.task.runs) and life.task.last_run.started is not None,
        "pass deadline": not life.task.is_resolved,
        "schedule": True,
        "cancel": True,
        "rerun": True,
    }
    return needs.get(name, bool(life.task.runs) or name.startswith("priority"))


def lived(names: list[str]) -> tuple[Life, list[EventMessage]]:
    """Returns a task that went through those of the steps that it could, and what was announced at once."""
    life = Life.begin()
    prompt = life.defined()
    for name in names:
        if possible(life, name):
            try:
                prompt += STEPS[name](life)
            except ApiError:
                continue
    return life, prompt


def late(life: Life, message: EventMessage) -> EventMessage:
    """Returns the message as it is made from its pointer, of the task as it is now."""
    event = from_json(to_json(message.event))
    assert isinstance(event, TaskEvent)
    return render(event, life.definition, life.task)


@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=25))
def test_every_event_of_any_life_looks_the_same_however_late_it_is_sent(names: list[str]) -> None:
    life, prompt = lived(names)
    for message in prompt:
        assert late(life, message) == message


@pytest.mark.parametrize(
    ("before", "announced", "after"),
    [
        (["schedule", "claim"], "artifact", ["reclaim", "fail"]),
        (["schedule"], "priority high", ["claim", "cancel"]),
        (["schedule", "claim"], "priority high", ["reclaim", "shut down", "claim", "complete"]),
        ([], "schedule", ["priority high", "claim"]),
        (["schedule"], "claim", ["reclaim", "priority high", "shut down"]),
        (["schedule", "claim"], "shut down", ["priority high", "claim", "complete"]),
        (["schedule", "claim"], "fail", ["rerun", "claim", "complete"]),
    ],
)
def test_what_happens_after_an_event_does_not_show_in_it(before: list[str], announced: str, after: list[str]) -> None:
    life, _ = lived(before)
    prompt = STEPS[announced](life)
    assert prompt
    for name in after:
        life.tick(1)
        assert STEPS[name](life) or name == "reclaim"
    assert [late(life, message) for message in prompt] == prompt


def test_an_event_of_a_run_that_was_resolved_otherwise_is_refused() -> None:
    _, prompt = lived(["schedule", "claim", "fail"])
    other, _ = lived(["schedule", "claim", "complete"])
    with pytest.raises(ValueError, match="is completed, not failed"):
        late(other, prompt[-1])
