"""What a task asks for, done: mounts, commands with their environment, artifacts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path, PurePosixPath

import aiohttp
from taskcluster.exceptions import TaskclusterRestFailure

from worker.artifacts import Artifacts, UploadFailed
from worker.caches import Caches
from worker.claim import Claim
from worker.content import Contents, NotReached
from worker.files import Unusable
from worker.folders import Folders
from worker.helper import Helper, helping
from worker.logstore import LogStore
from worker.mounts import MountFailed, Mounts
from worker.options import Options
from worker.patience import all_or_none
from worker.payload import LONGEST_NAME, Artifact, Payload
from worker.process import Processes, SpawnError
from worker.proxy import Proxy
from worker.users import User, Users

PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "TASKCLUSTER_WORKER_LOCATION", "TASKCLUSTER_INSTANCE_TYPE")
"""What a command sees of the worker's environment: nothing secret."""
UPLOADS_AT_ONCE = 8


class TaskException(Exception):
    """The run cannot be brought to an end: the reason to report (contract 4.3), and what to write to the log."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class Site:
    """What all runs of a worker share."""

    options: Options
    session: aiohttp.ClientSession
    folders: Folders
    caches: Caches
    users: Users


class Execution:
    """One run's task, from its payload to its artifacts."""

    def __init__(self, claim: Claim, site: Site, home: Path, store: LogStore, user: User | None) -> None:
        """`home`: a folder for this run alone. `user`: the user that the commands run as; None: the worker's own."""
        self._claim = claim
        self._site = site
        self._home = home
        self._folder = home / "task"
        self._store = store
        self._user = user
        self._locks = site.folders.locks(home)
        self._artifacts = Artifacts(claim, site.session)

    async def execute(self, payload: Payload) -> bool:
        """Whether the task has completed, or else failed. Cancelling it ends all of the task's processes.

        Raises TaskException; OSError for what the machine lacks; what the queue refuses comes as the client raises it.
        """
        contents = Contents(self._claim, self._site.options.root_url, self._site.session)
        mounts = Mounts(contents, self._site.caches, self._store.say, self._user, self._locks)
        self._folder.mkdir(mode=0o700)
        if self._user is not None:  # nobody else can reach it yet
            os.chown(self._folder, self._user.uid, self._user.gid, follow_symlinks=False)
        try:
            await asyncio.to_thread(self._site.caches.make_room)
            async with mounts.placed(payload.mounts, self._home, self._folder):
                exit_code = await self._run(payload)
                uploaded = await self._upload_all(payload)
                if exit_code in payload.on_exit_status.purge_caches:
                    self._store.say(f"The task's caches are purged, since its exit code is {exit_code}")
                    await asyncio.to_thread(mounts.purge)
        except MountFailed as problem:
            self._store.say(str(problem))
            return False
        except NotReached as problem:
            raise TaskException("intermittent-task", f"A mount cannot be fetched now: {problem}") from None
        except UploadFailed as problem:
            raise TaskException("resource-unavailable", f"An artifact could not be uploaded: {problem}") from None
        if exit_code in payload.on_exit_status.retry:
            raise TaskException("intermittent-task", f"The task is to be retried, since its exit code is {exit_code}")
        return exit_code == 0 and uploaded

    async def _run(self, payload: Payload) -> int | None:
        """Runs the commands until one fails; the last exit code, or None after maxRunTime. Raises TaskException."""
        say = self._store.say
        async with AsyncExitStack() as stack:
            env = self._environment(payload.env)
            if payload.features.taskcluster_proxy:
                proxy = Proxy(self._claim, self._site.options.root_url, self._site.session, self._user)
                env["TASKCLUSTER_PROXY_URL"] = await stack.enter_async_context(proxy.serving())
            grace = self._site.options.grace_seconds
            processes = Processes(
                folder=self._folder,
                env=env,
                output=self._store.write,
                grace=grace,
                user=self._user,
                locks=self._locks,
            )
            program = payload.command[0][0]
            exit_code = 0
            try:
                async with asyncio.timeout(payload.max_run_time), processes:
                    for number, command in enumerate(payload.command, start=1):
                        if len(payload.command) > 1:
                            say(f"Command {number} of {len(payload.command)}")
                        program = command[0]
                        exit_code = await processes.run(command)
                        if exit_code != 0:
                            break
            except SpawnError as problem:
                raise TaskException(problem.reason, f"{program} could not be started: {problem}") from None
            except TimeoutError:
                say(f"Ended after maxRunTime, {payload.max_run_time:g} s")
                return None
        say(f"Exit code {exit_code}" if exit_code >= 0 else f"Ended by signal {-exit_code}")
        return exit_code

    def _environment(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """The worker's own variables come last: no payload changes what a task is told of itself."""
        claim, options = self._claim, self._site.options
        own = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        if self._user is not None:
            own |= {"USER": self._user.name, "LOGNAME": self._user.name}
        task = {
            "TASK_ID": claim.task_id,
            "RUN_ID": str(claim.run_id),
            "TASK_GROUP_ID": claim.definition["taskGroupId"],
            "TASK_WORKDIR": str(self._folder),
            "TASKCLUSTER_ROOT_URL": options.root_url,
            "TASKCLUSTER_WORKER_GROUP": options.worker_group,
            "TASKCLUSTER_WORKER_TYPE": options.task_queue_id.partition("/")[2],
        }
        return {"HOME": str(self._folder), **own, **wanted, **task}

    async def _upload_all(self, payload: Payload) -> bool:
        """Uploads what the payload names; whether everything was there that must be."""
        if not payload.artifacts:
            return True
        async with helping(self._folder, self._user, self._locks) as helper:
            return await self._upload_with(helper, payload.artifacts)

    async def _upload_with(self, helper: Helper, artifacts: Sequence[Artifact]) -> bool:
        at_once = asyncio.Semaphore(UPLOADS_AT_ONCE)

        async def one(artifact: Artifact, name: str, path: str) -> bool:
            async with at_once:
                return await self._upload(helper, artifact, name, path)

        complete, found = True, list[tuple[Artifact, str, str]]()
        for artifact in artifacts:
            name = artifact.name or artifact.path
            if artifact.type == "file":
                found.append((artifact, name, artifact.path))
                continue
            try:
                paths = await helper.files_below(artifact.path)
            except Unusable as problem:
                complete = await self._miss(artifact, name, problem) and complete
                continue
            for path in paths:
                below = PurePosixPath(path).relative_to(artifact.path)
                found.append((artifact, f"{name}/{below}", path))
        return all([complete, *await all_or_none(one(*each) for each in found)])

    async def _upload(self, helper: Helper, artifact: Artifact, name: str, path: str) -> bool:
        """Uploads one file, or says in its place why it is not there."""
        if not (name.isascii() and name.isprintable() and len(name) <= LONGEST_NAME):
            self._store.say(f"{path!r} cannot be uploaded: its name cannot be an artifact's")
            return False
        try:
            with await helper.open(path) as file:
                self._store.say(f"Uploading {name}")
                await self._artifacts.upload(
                    name,
                    file,
                    expires=artifact.expires,
                    content_type=artifact.content_type,
                    encoding=artifact.content_encoding,
                )
        except Unusable as problem:
            return await self._miss(artifact, name, problem)
        except TaskclusterRestFailure as refused:
            if refused.status_code != HTTPStatus.BAD_REQUEST:
                raise
            self._store.say(f"Artifact {name} is refused: {refused}")
            return False
        return True

    async def _miss(self, artifact: Artifact, name: str, problem: Unusable) -> bool:
        """Handles a missing artifact; returns whether it is optional."""
        self._store.say(f"Artifact {name} is missing: {problem}")
        if artifact.optional:
            return True
        try:
            await self._artifacts.report_missing(name, problem.reason, str(problem), artifact.expires)
        except TaskclusterRestFailure as refused:
            if refused.status_code != HTTPStatus.BAD_REQUEST:
                raise
            raise TaskException("malformed-payload", f"Artifact {name} is refused: {refused}") from None
        return False
