"""What people, decision tasks and workers do with the deployment of a soak, by chance."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from shared.app.services import Services
from shared.auth.clients.accounts import CreateClientRequest
from shared.base.dates import format_date
from shared.base.priority import PRIORITIES, Priority
from shared.index.rules import IndexEntry
from shared.queue.artifacts.rows import decode
from shared.queue.artifacts.rules import Artifact, StorageType, Upload
from shared.queue.artifacts.uploads import BLOCK
from shared.queue.claims.work import Claim
from shared.queue.groups.jobs import GroupJob
from shared.queue.tasks.messages import pending_queue
from shared.queue.tasks.rules import Resolved, Task, Worker
from shared.store import keys
from tests.promises.simulator.artifact_scenarios import relay_to
from tests.promises.simulator.expiring import everybody
from tests.promises.simulator.soak.deployment import Deployment

CONTENT = b"what a task has made"
LONGEST_LIFE = timedelta(days=3)
"""The longest time from a task's creation to its expiration."""
LONGEST_DEADLINE = timedelta(hours=10)
LARGE = 70_000
"""Characters of a payload that does not fit into a row, as it is noise."""
SHARED_PATH = "soak.latest"


class Life:
    """The users of a deployment: creators of groups, workers of some task queues, and operators."""

    def __init__(self, deployment: Deployment, pools: tuple[str, ...], seed: int) -> None:
        self._of = deployment
        self._world = deployment.world
        self._chance = random.Random(f"life {seed}")
        self._pools = pools
        self._workers = 0
        self._groups: list[str] = []
        self._gone: list[str] = []
        """Ids that may be used again once their task is gone."""

    async def hour(self, groups: int, workers: int) -> None:
        """Plays a busy hour."""
        self._groups = self._groups[-20:]
        await asyncio.gather(
            self._of.host(3600.0),
            *(self._later(self._create_group) for _ in range(groups)),
            *(self._work() for _ in range(workers)),
            *(self._later(self._operate) for _ in range(2 * groups)),
        )

    async def _later(self, act: Callable[[], Awaitable[object]]) -> None:
        await asyncio.sleep(3000 * self._chance.random())
        await act()

    # Creators

    async def _create_group(self) -> None:
        """Creates chains, diamonds and fans, within the group or with tasks of others."""
        chance = self._chance
        group = self._world.slugid()
        self._groups.append(group)
        before: list[str] = []
        for _ in range(chance.randint(1, 6)):
            wanted = chance.sample(before, min(len(before), chance.randint(0, 3)))
            if chance.random() < 0.1 and (others := sorted(self._world.tasks())):
                wanted.append(chance.choice(others))
            task_id = self._an_id()
            if await self._create(task_id, group, sorted(set(wanted))):
                before.append(task_id)

    def _an_id(self) -> str:
        there = self._world.tasks()
        if self._gone and self._chance.random() < 0.1 and self._gone[0] not in there:
            return self._gone.pop(0)
        made = self._world.slugid()
        if self._chance.random() < 0.05:
            self._gone.append(made)
        return made

    async def _create(self, task_id: str, group: str, dependencies: list[str]) -> bool:
        chance, now = self._chance, self._world.clock.now()
        deadline = now + chance.random() * LONGEST_DEADLINE + timedelta(minutes=10)
        expires = max(deadline, now + chance.random() * LONGEST_LIFE)
        own = f"soak.g{chance.randrange(20)}.{task_id}"
        routes = [f"index.{path}" for path in (own, SHARED_PATH) if chance.random() < 0.4]
        provisioner_id, worker_type = (pool := chance.choice(self._pools)).split("/")
        payload = {"noise": chance.randbytes(LARGE).hex()} if chance.random() < 0.01 else {}
        definition = self._world.definition(
            task_id,
            taskGroupId=group,
            taskQueueId=pool,
            provisionerId=provisioner_id,
            workerType=worker_type,
            dependencies=dependencies,
            requires=chance.choice(["all-completed", "all-resolved"]),
            priority=chance.choice(PRIORITIES),
            retries=chance.randint(0, 3),
            routes=routes,
            payload=payload,
            deadline=format_date(deadline),
            expires=format_date(expires),
        )
        self._world.index_paths[task_id] = [own] if f"index.{own}" in routes else []  # the id may be used again
        created = await self._of.call(lambda services: _created(services, definition))
        if created:
            self._of.created += 1
            self._of.acknowledged.add(task_id)
        return bool(created)

    # Workers

    async def _work(self) -> None:
        """Lets a worker come, run some tasks, and go, or vanish in the middle."""
        chance = self._chance
        self._workers += 1
        worker = Worker(worker_group="soak", worker_id=f"w{self._workers}")
        pool = chance.choice(self._pools)
        await asyncio.sleep(600 * chance.random())
        for _ in range(chance.randint(1, 12)):
            claims = await self._of.call(lambda services: services.work.claim_work(pool, worker, 2, 1.5))
            for claim in claims or []:
                self._world.claims.append(claim)
                await self._run(claim)
            if chance.random() < 0.05:
                return
            await asyncio.sleep(240 * chance.random())
        if chance.random() < 0.3:
            await self._of.call(lambda services: services.workers.removed(pool, worker, start=""))

    async def _run(self, claim: Claim) -> None:
        chance, task_id, run_id = self._chance, claim.task.task_id, claim.run_id
        await asyncio.sleep(120 * chance.random())
        if chance.random() < 0.2:
            await self._of.call(lambda services: services.work.reclaim_task(task_id, run_id))
        for number in range(chance.randint(0, 2)):
            await self._upload(claim.task, run_id, number)
        end = chance.random()
        if end < 0.7:
            await self._of.call(lambda services: services.lifecycle.report(task_id, run_id, Resolved.COMPLETED))
        elif end < 0.8:
            await self._of.call(lambda services: services.lifecycle.report(task_id, run_id, Resolved.FAILED))
        elif end < 0.9:
            reason = chance.choice([Resolved.WORKER_SHUTDOWN, Resolved.MALFORMED_PAYLOAD, Resolved.INTERMITTENT_TASK])
            await self._of.call(lambda services: services.lifecycle.report_exception(task_id, run_id, reason))
        # else it has vanished: the claim ends at takenUntil

    async def _upload(self, task: Task, run_id: int, number: int) -> None:
        chance, now = self._chance, self._world.clock.now()
        name = f"{chance.choice(['public', 'private'])}/{number}"
        expires = task.expires if chance.random() < 0.6 else min(task.expires, now + timedelta(hours=2))
        kind = chance.choice(["reference", "error", "direct", "relay"])
        details: dict[str, Any] = {}
        storage, upload = StorageType.S3, Upload(kind) if kind in {"direct", "relay"} else Upload.NONE
        if kind == "reference":
            storage, details = StorageType.REFERENCE, {"url": f"https://example.com/{task.task_id}"}
        elif kind == "error":
            storage, details = StorageType.ERROR, {"reason": "file-missing-on-worker", "message": "gone"}
        wanted = Artifact(
            name=name,
            storage_type=storage,
            content_type="text/plain",
            expires=expires,
            upload=upload,
            details=details,
        )
        task_id = task.task_id
        created = await self._of.call(
            lambda services: services.artifacts.creation.create_or_find(task_id, run_id, wanted)
        )
        if created is None or chance.random() < 0.1:
            return
        if upload is Upload.RELAY:
            url = self._world.services.artifacts.urls.url(created.stored, created.upload_until)
            await self._of.call(lambda services: relay_to(services, url, CONTENT))
        elif upload is Upload.DIRECT:
            for row in self._world.rows(keys.TASKS, task_id):
                if row.key == keys.artifact(run_id, name):
                    path = keys.path(task_id, run_id, name, decode(row).version)
                    blobs = self._world.account.connect().blobs
                    await blobs.put_block(keys.container(name), path, BLOCK, CONTENT)

    # Operators

    async def _operate(self) -> None:
        """Does something that operators may do but need not."""
        chance, of = self._chance, self._of
        tasks = sorted(self._world.tasks())
        if not tasks or not self._groups:
            return
        task_id, group, pool = chance.choice(tasks), chance.choice(self._groups), chance.choice(self._pools)
        priority = chance.choice(PRIORITIES)
        path = f"soak.calls.{chance.randrange(30)}"
        until = self._world.clock.now() + timedelta(hours=6)
        worker = Worker(worker_group="soak", worker_id=f"w{chance.randint(1, max(self._workers, 1))}")
        entry = IndexEntry(
            path=path,
            task_id=task_id,
            rank=chance.randint(0, 3),
            data={},
            expires=self._world.clock.now() + LONGEST_LIFE * chance.random() + timedelta(hours=1),
            at=self._world.clock.now(),
        )
        request = CreateClientRequest(description="", expires=format_date(until), scopes=[], deleteOnExpiration=True)
        acts: list[Callable[[Services], Awaitable[object]]] = [
            lambda services: _of_task(services, task_id, services.lifecycle.cancel),
            lambda services: _of_task(services, task_id, services.lifecycle.rerun),
            lambda services: _of_task(services, task_id, services.lifecycle.rerun),
            lambda services: _of_task(services, task_id, services.lifecycle.schedule),
            lambda services: _of_task(
                services, task_id, lambda read: services.lifecycle.change_priority(read, priority)
            ),
            lambda services: services.group_jobs.call(GroupJob(task_group_id=group, kind="cancel")),
            lambda services: services.group_jobs.call(
                GroupJob(task_group_id=group, kind="priority", new_priority=priority)
            ),
            lambda services: _sealed(services, group),
            lambda services: _listed(services, group),
            lambda services: services.pool_views.counts(pool),
            lambda services: services.workers.quarantine(pool, worker, until, client_id="soak", info=""),
            lambda services: services.workers.removed(pool, worker, start=""),
            lambda services: services.index.insert(entry),
            lambda services: services.index.remove_entry(path),
            lambda services: services.index.remove_entry(SHARED_PATH),
            lambda services: services.clients.make_client(f"soak/{task_id}", request, everybody),
            lambda services: self._steal(pool, priority),
        ]
        await of.call(chance.choice(acts))

    async def _steal(self, pool: str, band: Priority) -> None:
        """Takes and deletes messages, as somebody with a poll URL may."""
        queue = pending_queue(pool, band)
        queues = self._world.account.connect().queues
        for message in await queues.get_messages(queue, count=2, hidden_for=300):
            if self._chance.random() < 0.5:
                await queues.delete_message(queue, message.receipt)
                self._of.robbed.add(pool)


async def _created(services: Services, definition: Any) -> bool:
    await services.create_task(definition)
    return True


async def _of_task(services: Services, task_id: str, act: Callable[[Any], Awaitable[object]]) -> object:
    return await act(await services.lifecycle.existing(task_id))


async def _sealed(services: Services, group: str) -> object:
    return await services.groups.seal(await services.groups.existing(group))


async def _listed(services: Services, group: str) -> object:
    return await services.groups.list(group, start="", limit=1000)
