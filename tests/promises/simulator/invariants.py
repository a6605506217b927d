"""Checks the invariants of design 7 over everything that a world holds."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from shared.base.priority import PRIORITIES
from shared.queue.events.rules import Exchange, GroupEvent, TaskEvent, resolved
from shared.queue.tasks.effects import row_of
from shared.queue.tasks.internal_messages import CLAIM_QUEUE, DEADLINE_QUEUE, INTERNAL_QUEUES, decode_body
from shared.queue.tasks.messages import pending_queue
from shared.queue.tasks.rules import RETRY_OF, MessageHandle, Resolved, State, Task
from shared.store import keys, limits
from shared.store.expiring import is_over
from shared.store.interface import Row
from tests.promises.simulator.world import CLAIM_TIMEOUT, POOL, World

ROOM = 0.8
"""The largest share of the limit of a property or an entity that a row may take."""
MOST_HANDLED = 80
"""The most calls of a handler for one message's run or group, however long its commit, its dependents or Service Bus
take."""


def check(world: World) -> None:
    """Checks what holds at any moment, whatever has died."""
    assert not world.history.violations, world.history.violations
    assert not world.topics.repeats, f"events that subscribers get twice: {world.topics.repeats}"
    _nothing_is_invented(world)
    _tasks_are_led_to(world)
    for task in world.tasks().values():
        _runs_are_in_order(task)
        _guards_stand(world, task)
        _receipts_are_kept(world, task)
        if not task.is_resolved:
            assert _deadline_message(world, task), f"{task.task_id} has no deadline message"
            assert task.generation in _active(world, task), f"{task.task_id} is not active in its group"
        elif _is_unsettled(world, task):
            assert _deadline_message(world, task), f"{task.task_id} is not settled, and has no deadline message"
        if task.deadline <= world.clock.now():
            continue  # from now on the deadline message alone counts: timers and messages that come up are dropped
        if task.state is State.RUNNING:
            _claim_is_timed(world, task)
        if task.state is State.PENDING:
            _message_waits(world, task)


def check_settled(world: World) -> None:
    """Checks what also holds once every message that was due has been handled, and the reconciler has nothing to do."""
    check_handled(world)
    tasks = world.tasks()
    for task in tasks.values():
        wanted = set() if task.is_resolved else {task.generation}
        # A rerun that died has left the row of a generation that never came: a group check knows it by that. A request
        # of one that was late has left that of a generation which had ended by then: the next check knows it, too.
        reached = {each for each in _active(world, task) if each <= task.generation and not _is_late(world, task, each)}
        assert reached == wanted, f"active rows of {task.task_id}, which is {task.state}"
    expected = {
        (task.task_id, task.last_run_id, "pending" if task.state is State.PENDING else "claimed")
        for task in tasks.values()
        if task.state in {State.PENDING, State.RUNNING}
    }
    indexed = {row for row in _indexed(world) if row[0] in tasks}
    orphans = {row for row in indexed - expected if row[1] > tasks[row[0]].last_run_id}
    assert indexed - orphans == expected, "index rows of the pools"


def check_handled(world: World) -> None:
    """Checks what also holds once every message that was due has been handled."""
    check(world)
    for task in world.tasks().values():
        _dependencies_have_fired(world, task)
        if task.state is State.COMPLETED and not is_over(task.expires, world.clock.now()):
            indexed = {row.values["path"] for row in world.rows(keys.INDEX) if row.values.get("taskId") == task.task_id}
            missing = set(world.index_paths.get(task.task_id, ())) - indexed
            assert not missing, f"{task.task_id} has completed and is not found as {missing}"
    running = {
        keys.claimed(row_of(task, task.last_run_id)) for task in world.tasks().values() if task.state is State.RUNNING
    }
    looked_after = {
        f"claimed~{body['started']}~{body['taskId']}~{body['runId']:04d}"
        for body, _ in world.messages(CLAIM_QUEUE)
        if "started" in body
    }
    claimed = {row.key for row in world.rows(keys.POOLS) if row.key.startswith("claimed~")}
    assert claimed <= running | looked_after, "index rows of claims, which nothing removes before their deadlines"
    _rows_fit(world)
    often = {
        about: times
        for about, times in world.handled.items()
        if times > MOST_HANDLED * max(len(world.put_by_calls[about]), 1)
    }
    assert not often, f"handlers that were called too often: {often}"


def check_undisturbed(world: World) -> None:
    """Checks what holds after calls that nothing has disturbed, their messages handled: each message exists once, and
    its receipt is known. A retry run's message was shown after the commit, so that its receipt is not known any more.
    """
    check(world)
    tasks = world.tasks().values()
    running = {task.task_id for task in tasks if task.state is State.RUNNING}
    for queue, wanted in (
        (CLAIM_QUEUE, running),
        (DEADLINE_QUEUE, {task.task_id for task in tasks if not task.is_resolved}),
    ):
        assert sorted(body["taskId"] for body, _ in world.messages(queue)) == sorted(wanted), f"messages of {queue}"
    for task in tasks:
        waiting = [body["hintId"] for body, _ in _pending_messages(world, task)]
        if task.state in {State.PENDING, State.RUNNING}:
            assert waiting.count(task.hint_id) == 1, f"pending messages of {task.task_id}"
            named = [body["runId"] for body, _ in _pending_messages(world, task) if body["hintId"] == task.hint_id]
            wanted_run = task.last_run_id + (task.state is State.RUNNING)
            assert named == [wanted_run], f"the message of run {wanted_run} of {task.task_id} names run {named}"
        elif task.is_resolved and not _is_retry(task):
            assert waiting == [], f"pending messages of {task.task_id}"
        for handle in _handles(task):
            held = {message.message_id: message.pop_receipt for message in world.account.messages(handle.queue)}
            assert held.get(handle.message_id) == handle.pop_receipt, f"{task.task_id} has lost its {handle.queue}"


def check_finished(world: World) -> None:
    """Checks that nothing is left over when all tasks are resolved and the reconciler has passed."""
    check_settled(world)
    tasks = world.tasks()
    assert all(task.is_resolved for task in tasks.values()), "everything ends at its deadline"
    assert [row for row in _indexed(world) if row[0] in tasks] == [], "index rows of resolved tasks"
    left = {queue: world.messages(queue) for queue in INTERNAL_QUEUES if world.messages(queue)}
    assert not left, "messages that are not needed any more"
    offered = [held for band in PRIORITIES for held in world.messages(pending_queue(POOL, band))]
    assert all(visible > world.clock.now() for _, visible in offered), "pending messages that a poll has not removed"
    _groups_are_listed(world)
    _group_rows_belong(world)
    check_groups(world)


def check_groups(world: World) -> None:
    """Checks, when all tasks are resolved, that each group was announced, and no more often than it was resolved
    (design 5)."""
    for task_group_id in {task.task_group_id for task in world.tasks().values()}:
        crossings = [moment for moment in world.history.crossings if moment.task_group_id == task_group_id]
        announced = [
            (at, message.event.occasion)
            for at, message in enumerate(world.topics.messages)
            if isinstance(message.event, GroupEvent)
            and message.event.exchange is Exchange.TASK_GROUP_RESOLVED
            and message.event.task_group_id == task_group_id
        ]
        occasions = {occasion for _, occasion in announced}
        assert any(at >= crossings[-1].published for at, _ in announced), f"{task_group_id} is resolved in silence"
        assert len(occasions) <= len(crossings), f"{task_group_id} is announced as resolved too often: {occasions}"
        resolutions = world.history.resolutions(task_group_id)
        possible = {f"{task_id}~{generation}" for task_id, generation, _ in resolutions}
        named = {"~".join(occasion.split("~")[:2]) for occasion in occasions}
        assert named <= possible, f"{task_group_id} is announced for {named - possible}"
        assert max(resolutions.values()) == 1, "a task is resolved once a generation"
        headers = [row for row in world.rows(keys.GROUPS, task_group_id) if row.key == keys.DUE]
        if not headers:  # a task that could not be deleted at once is tried again after its group has gone
            of_group = [task for task in world.tasks().values() if task.task_group_id == task_group_id]
            assert all(is_over(task.expires, world.clock.now()) for task in of_group), f"{task_group_id} is gone"
        for header in headers:
            assert header.values["resolution"] == "", f"{task_group_id} is still to be checked"


CHECKED_AS_ANNOUNCED = {
    Exchange.TASK_DEFINED: "check_announced",
    Exchange.TASK_PENDING: "check_announced",
    Exchange.TASK_RUNNING: "check_announced",
    Exchange.TASK_COMPLETED: "check_announced",
    Exchange.TASK_FAILED: "check_announced",
    Exchange.TASK_EXCEPTION: "check_announced",
    Exchange.TASK_PRIORITY_CHANGED: "check_announced",
    Exchange.TASK_GROUP_SEALED: "check_announced",
    Exchange.TASK_GROUP_PRIORITY_CHANGED: "check_announced",
    Exchange.TASK_GROUP_RESOLVED: "check_groups",
    Exchange.ARTIFACT_CREATED: "artifact_invariants.check",
}
"""For each topic, where it is checked that nothing is left out of it. No topic may be missing here."""
assert set(CHECKED_AS_ANNOUNCED) == set(Exchange), "a topic that no invariant knows"


def check_announced(world: World) -> None:
    """Checks that every transition of a task, and every change of a group, was announced, each under one MessageId."""
    kinds = {
        State.COMPLETED: "task-completed",
        State.FAILED: "task-failed",
        State.EXCEPTION: "task-exception",
    }
    bodies = [(topic, body) for topic, body in _bodies(world) if "artifact" not in body]
    sent = {(body["status"]["taskId"], body.get("runId"), topic) for topic, body in bodies}
    _each_has_one_message_id(world)
    _artifacts_are_announced_once(world)
    for task in world.tasks().values():
        assert (task.task_id, None, "task-defined") in sent, f"task-defined of {task.task_id}"
        for run_id, run in enumerate(task.runs):
            wanted = [kinds[run.state]] if run.state in kinds else []
            if run.reason_created.value != "exception":
                wanted.append("task-pending")
            if run.started is not None:
                wanted.append("task-running")
            for kind in wanted:
                assert (task.task_id, run_id, kind) in sent, f"{kind} of run {run_id} of {task.task_id}"
    _changes_of_priority_are_announced(world)
    _groups_are_announced(world)


def _each_has_one_message_id(world: World) -> None:
    """Checks that each event of one life of a task has one MessageId: an id that is used again has events of its
    own."""
    ids: dict[tuple[object, ...], set[str]] = {}
    for message in world.topics.messages:
        event = message.event
        if isinstance(event, TaskEvent) and event.exchange not in _MORE_THAN_ONCE:
            ids.setdefault((event.exchange, event.task_id, event.run_id, event.life), set()).add(message.message_id)
    assert max(map(len, ids.values()), default=1) == 1, "events under more than one MessageId"


_MORE_THAN_ONCE = {Exchange.TASK_PRIORITY_CHANGED, Exchange.ARTIFACT_CREATED}
"""Events that may happen again in a run."""


def _artifacts_are_announced_once(world: World) -> None:
    """Checks that artifacts are announced under one MessageId; a reference once more if its URL was changed."""
    artifacts = [
        (body["status"]["taskId"], body["runId"], body["artifact"]) for _, body in _bodies(world) if "artifact" in body
    ]
    announced = Counter((task_id, run_id, artifact["name"]) for task_id, run_id, artifact in artifacts)
    references = {
        (task_id, run_id, artifact["name"])
        for task_id, run_id, artifact in artifacts
        if artifact["storageType"] == "reference"
    }
    for name, times in announced.items():
        assert times <= (2 if name in references else 1), f"{name} under {times} MessageIds"


def _changes_of_priority_are_announced(world: World) -> None:
    """Checks that each change of a priority was announced under its own MessageId, with both priorities."""
    bodies = world.topics.of(Exchange.TASK_PRIORITY_CHANGED.value)
    announced = Counter((body["status"]["taskId"], body["oldPriority"], body["newPriority"]) for body in bodies)
    happened: Counter[tuple[str, str, str]] = Counter()
    for task_id, states in world.history.states.items():
        for before, after in pairwise(states):
            if after.sequence > 0 and before.priority != after.priority:
                happened[task_id, before.priority, after.priority] += 1
    assert announced == happened, "changes of priority that were announced, and those that happened"


def _groups_are_announced(world: World) -> None:
    """Checks that a sealed group was announced, and a change of all priorities, if it was the latest call on all."""
    sealed = {body["taskGroupId"] for body in world.topics.of(Exchange.TASK_GROUP_SEALED.value)}
    changed = {body["taskGroupId"] for body in world.topics.of(Exchange.TASK_GROUP_PRIORITY_CHANGED.value)}
    for row in world.rows(keys.GROUPS):
        if row.key == keys.GROUP and row.values["sealed"]:
            assert row.partition in sealed, f"{row.partition} is sealed in silence"
        if row.values.get("kind") == "priority":
            assert row.partition in changed, f"the priority of {row.partition} has changed in silence"


def check_resolutions_announced(world: World) -> None:
    """Checks that the last resolution of every task was announced, also that of a call that died and that nobody has
    repeated: then the handler announces it that carries the resolution to everybody who waits for it (design 2.5)."""
    events = [message.event for message in world.topics.messages]
    sent = {(each.exchange, each.task_id, each.run_id, each.life) for each in events if isinstance(each, TaskEvent)}
    missing = [
        (task.task_id, task.last_run_id)
        for task in world.tasks().values()
        if task.is_resolved
        and (resolved(task, task.last_run_id).exchange, task.task_id, task.last_run_id, task.life) not in sent
    ]
    assert not missing, f"resolutions that were not announced: {missing}"


def check_claims_announced(world: World) -> None:
    """Checks that every claim that a worker was given was announced."""
    running = {(body["status"]["taskId"], body["runId"]) for body in world.topics.of("task-running")}
    assert {(claim.task.task_id, claim.run_id) for claim in world.claims} <= running


def _rows_fit(world: World) -> None:
    """Checks that each row has room left: a row that fills up would refuse its last writer one day."""
    for table in (keys.TASKS, keys.GROUPS, keys.POOLS, keys.EXPIRY):
        for row in world.rows(table):
            place = table, row.partition, row.key
            if world.fitting.get(place) is row:
                continue
            if limits.check_values(row.partition, row.key, row.values) > ROOM * min(limits.MAX_TEXT, limits.MAX_ENTITY):
                _measure(table, row)
            world.fitting[place] = row


def _measure(table: str, row: Row) -> None:
    size = limits.entity_size(row.partition, row.key, row.values)
    assert size <= ROOM * limits.MAX_ENTITY, f"{row.key} in {table} has {size} bytes"
    texts = [value for value in row.values.values() if isinstance(value, str)]
    assert all(len(text) <= ROOM * limits.MAX_TEXT for text in texts), f"{row.key} in {table}"


def _tasks_are_led_to(world: World) -> None:
    """Checks that the expiry job finds each task: by its member row, which goes after it, or by a row of its own."""
    scheduled = {row.key for row in world.rows(keys.EXPIRY)}
    members = {(row.partition, row.key) for row in world.rows(keys.GROUPS)}
    for task_id, task in world.tasks().items():
        is_member = (task.task_group_id, keys.member(task_id)) in members
        is_alone = keys.expiring("task", task_id, task.task_group_id) in scheduled
        assert is_member or is_alone, f"{task_id} stays for ever"


def _groups_are_listed(world: World) -> None:
    """Checks that the rows exist that a group's header relies on: its row in the list of groups, and that by which both
    expire. They are written ahead of the header, and not removed before it is gone."""
    listed = {row.key: row.values["taskGroupId"] for row in world.rows(keys.DIRECTORY, keys.GROUP)}
    scheduled = {row.key for row in world.rows(keys.EXPIRY)}
    for row in world.rows(keys.GROUPS):
        if row.key == keys.GROUP:
            assert listed.get(str(row.values["listed"])) == row.partition, f"{row.partition} is not listed"
            assert keys.expiring(keys.SWEPT_GROUP, row.partition) in scheduled, f"{row.partition} stays for ever"


def _group_rows_belong(world: World) -> None:
    """Checks that the rows of a group belong to it. Rows of calls that died are recognised by their tasks, which are
    not there. Those of a task of another group are of a call that was refused, and are both there: one of them alone
    would be in the way of a later task of that id. They go with their group."""
    tasks = world.tasks()
    rows = {(row.partition, row.key) for row in world.rows(keys.GROUPS)}
    for partition, key in rows:
        kind, *words = key.split("~")
        if kind in {"member", "active"} and words[0] in tasks and tasks[words[0]].task_group_id != partition:
            both = {(partition, keys.member(words[0])), (partition, keys.active(words[0], 0))}
            assert (partition, key) in both, f"{key} in the group {partition}"
            assert both | {(partition, keys.GROUP)} <= rows, f"{key} is alone in the group {partition}"


def _bodies(world: World) -> list[tuple[str, dict[str, Any]]]:
    """Returns the bodies of events that happen at most once a run."""
    topics = {message.topic for message in world.topics.messages} - {Exchange.TASK_PRIORITY_CHANGED.value}
    return [(topic, body) for topic in sorted(topics) for body in world.topics.of(topic) if "status" in body]


def _runs_are_in_order(task: Task) -> None:
    for run in task.runs[:-1]:
        assert run.state.is_resolved, f"only the last run of {task.task_id} may be unresolved"
    retried = sum(run.reason_created.value in {"retry", "task-retry"} for run in task.runs)
    assert retried <= task.retries * (task.generation + 1), f"{task.task_id} was retried too often"
    assert 0 <= task.retries_left <= task.retries


def _guards_stand(world: World, task: Task) -> None:
    present = {row.key for row in world.rows(keys.TASKS, task.task_id)}
    assert (keys.TASK_OPEN in present) == (not task.is_resolved), f"open guard of {task.task_id}"
    uploads = {keys.upload(run_id) for run_id, run in enumerate(task.runs) if run.state is State.RUNNING}
    assert {key for key in present if key.startswith("upload~")} == uploads, f"upload guards of {task.task_id}"


def _active(world: World, task: Task) -> set[int]:
    prefix = f"active~{task.task_id}~"
    rows = world.rows(keys.GROUPS, task.task_group_id)
    return {int(row.key.removeprefix(prefix)) for row in rows if row.key.startswith(prefix)}


def _is_unsettled(world: World, task: Task) -> bool:
    """Whether the handler of a resolution has yet to come: until then the deadline message is its backup, unless that
    has resolved the task itself."""
    if task.last_run.reason_resolved is Resolved.DEADLINE_EXCEEDED:
        return False
    return task.generation in _active(world, task) and not _is_late(world, task, task.generation)


def _is_late(world: World, task: Task, generation: int) -> bool:
    """Whether the active row was written after its generation had ended: the next check removes it (design 5)."""
    (row,) = (
        row for row in world.rows(keys.GROUPS, task.task_group_id) if row.key == keys.active(task.task_id, generation)
    )
    ends = [run.resolved for run in task.runs if run.generation == generation and run.resolved is not None]
    is_over = generation < task.generation or task.is_resolved
    return is_over and bool(ends) and row.timestamp > max(ends)


def _deadline_message(world: World, task: Task) -> bool:
    latest = max(task.deadline + timedelta(minutes=1), world.clock.now() + timedelta(seconds=600)) + world.slack
    messages = world.messages(DEADLINE_QUEUE)
    return any(body["taskId"] == task.task_id and visible <= latest for body, visible in messages)


def _claim_is_timed(world: World, task: Task) -> None:
    until = task.last_run.taken_until
    assert until is not None
    # A renewal that failed may have moved the timer already: it is late by no more than a lease.
    latest = max(until, world.clock.now() + CLAIM_TIMEOUT) + world.slack
    timers = [
        visible
        for body, visible in world.messages(CLAIM_QUEUE)
        if (body["taskId"], body["runId"]) == (task.task_id, task.last_run_id)
    ]
    assert any(visible <= latest for visible in timers), f"claim of {task.task_id} has no timer"


def _message_waits(world: World, task: Task) -> None:
    latest: datetime = world.clock.now() + CLAIM_TIMEOUT + world.slack
    waiting = [visible for body, visible in _pending_messages(world, task) if body["hintId"] == task.hint_id]
    assert any(visible <= latest for visible in waiting), f"{task.task_id} is pending and has no message"


def _pending_messages(world: World, task: Task) -> list[tuple[dict[str, Any], datetime]]:
    """Returns a task's messages in any band: the lease of a running task stays where it was when the priority is
    changed."""
    queues = [pending_queue(task.task_queue_id, band) for band in PRIORITIES]
    return [held for queue in queues for held in world.messages(queue) if held[0]["taskId"] == task.task_id]


def _receipts_are_kept(world: World, task: Task) -> None:
    """Checks that the next transition knows the receipts of the messages that it moves or removes."""
    needed = {
        "deadline": not task.is_resolved,
        "claim": task.state is State.RUNNING,
        "pending": task.state in {State.PENDING, State.RUNNING},
    }
    for name, is_needed in needed.items():
        assert not is_needed or getattr(task.handles, name), f"{task.task_id} has no receipt of its {name} message"
    if needed["pending"] and task.handles.pending is not None:
        held = {message.message_id: message.text for message in world.account.messages(task.handles.pending.queue)}
        text = held.get(task.handles.pending.message_id)
        assert text is None or decode_body(text)["hintId"] == task.hint_id, f"{task.task_id} holds another message"


def _handles(task: Task) -> list[MessageHandle]:
    """Returns the receipts, all valid, of the messages that belong to an unresolved task."""
    shown_later = task.state is State.PENDING and _is_retry(task)
    handles = (None if shown_later else task.handles.pending, task.handles.claim, task.handles.deadline)
    return [handle for handle in handles if handle is not None and not task.is_resolved]


def _is_retry(task: Task) -> bool:
    return task.last_run.reason_created in RETRY_OF.values()


def _dependencies_have_fired(world: World, task: Task) -> None:
    """Checks that a task that still waits has something to wait for."""
    definition = world.history.definitions[task.task_id]
    if not task.runs and not task.is_resolved:
        done = [world.history.must_have_fired(definition, required) for required in definition.dependencies]
        assert not all(done), f"{task.task_id} waits for dependencies that are all satisfied"


def _nothing_is_invented(world: World) -> None:
    """Checks that what is announced of a task was committed before."""
    for message in world.topics.messages:
        event = message.event
        if not isinstance(event, TaskEvent):
            continue
        states = world.history.states.get(event.task_id)
        assert states, f"{event.exchange} of {event.task_id}, which was never created"
        lives = [*world.history.ends[event.task_id], states[-1]]
        assert any(_has_happened(event, life, states) for life in lives), (
            f"{event.exchange} of run {event.run_id} of {event.task_id} is announced and has not happened"
        )


def _has_happened(event: TaskEvent, last: Task, states: list[Task]) -> bool:
    """Whether the task, which is or ended in its `last` state, shows the event."""
    run = last.runs[event.run_id] if event.run_id is not None and event.run_id <= last.last_run_id else None
    match event.exchange:
        case Exchange.TASK_DEFINED | Exchange.ARTIFACT_CREATED:
            return True
        case Exchange.TASK_PRIORITY_CHANGED:
            return any(
                state.sequence - 1 == event.sequence and state.priority == event.new_priority for state in states
            )
        case Exchange.TASK_PENDING:
            return run is not None
        case Exchange.TASK_RUNNING:
            # A claim that could not be announced for certain is given back: its run may be pending again.
            return any(
                number == event.run_id and run.started for state in states for number, run in enumerate(state.runs)
            )
        case _:
            return run is not None and event.exchange == f"task-{run.state}"


def _indexed(world: World) -> list[tuple[str, int, str]]:
    found = []
    for row in world.rows(keys.POOLS):
        kind, *words = row.key.split("~")
        if kind in {"pending", "claimed"}:
            found.append((words[1], int(words[2]), kind))
    return found
