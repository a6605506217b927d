"""`python -m worker`: runs until SIGTERM or SIGINT; a second one ends it at once."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from worker import health
from worker.health import beat
from worker.hiding import Formatter, hide, shown
from worker.options import Options, parse
from worker.queue import REFUSED
from worker.token import FILE_VARIABLE, shown_by
from worker.worker import Worker

log = logging.getLogger("worker")

EXIT_REFUSED = 1


async def work(options: Options) -> int:
    """Runs a worker; the exit code."""
    worker = Worker(options)
    loop = asyncio.get_running_loop()

    def asked(number: signal.Signals) -> None:
        log.info("%s: giving back what is running; once more ends the worker at once", number.name)
        for each in _SIGNALS:
            loop.remove_signal_handler(each)
        worker.shut_down()

    for number in _SIGNALS:
        loop.add_signal_handler(number, asked, number)
    log.info(
        "%s/%s takes up to %d tasks at a time of %s at %s (%s)",
        options.worker_group,
        options.worker_id,
        options.capacity,
        options.task_queue_id,
        options.root_url,
        options.poll_mode,
    )
    if not options.task_users:
        _warn(options)
    beating = asyncio.create_task(beat(Path(name))) if (name := os.environ.get(health.VARIABLE)) else None
    try:
        await worker.run()
    except REFUSED as refused:
        log.error("the queue does not let this worker ask for work: %s", shown(refused))
        return EXIT_REFUSED
    except OSError as problem:
        log.error("the worker cannot go on: %s", problem)
        return EXIT_REFUSED
    finally:
        if beating is not None:
            beating.cancel()
    return 0


def _warn(options: Options) -> None:
    """Says what tasks can do that run as the worker's own user."""
    if os.getuid() == 0:
        log.warning("tasks run as root, as the worker does: name users for them with --task-users")
    if (pid := shown_by(options.credentials["accessToken"])) is not None:
        log.warning(
            "tasks can read the worker's token in the environment of process %d: name users for them (--task-users), "
            "or a file in %s",
            pid,
            FILE_VARIABLE,
        )


_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def main() -> None:
    """The command line."""
    hide()
    options = parse(sys.argv[1:], os.environ)
    output = logging.StreamHandler(sys.stderr)
    output.setFormatter(Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[output])
    sys.exit(asyncio.run(work(options)))


if __name__ == "__main__":
    main()
