"""`python -m worker`: runs until SIGTERM or SIGINT; a second one ends it at once."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys

from worker.options import TOKEN_FILE, Options, parse
from worker.queue import REFUSED
from worker.text import Formatter, shown
from worker.users import hide
from worker.worker import Changed, Worker

log = logging.getLogger("worker")

SIGNALS = (signal.SIGTERM, signal.SIGINT)
EXIT_REFUSED = 1
EXIT_CHANGED = 3
"""A task has left something behind, or something is missing: a new worker has to take its place."""


async def work(options: Options) -> int:
    """Runs a worker; the exit code."""
    worker = Worker(options)
    loop = asyncio.get_running_loop()

    def asked(number: signal.Signals) -> None:
        log.info("%s: giving back what is running; once more ends the worker at once", number.name)
        for each in SIGNALS:
            loop.remove_signal_handler(each)
        worker.shut_down()

    for number in SIGNALS:
        loop.add_signal_handler(number, asked, number)
    where = f"{options.task_queue_id} at {options.root_url} ({options.poll_mode})"
    log.info("%s/%s takes tasks of %s", options.worker_group, options.worker_id, where)
    if options.task_user is None:
        log.warning(
            "tasks run as the worker's own user, %s: they reach its files and processes, its token where it comes by a "
            "variable (not by %s), and what earlier tasks have left; for tasks of others use --task-user, as root on "
            "Linux",
            os.getuid() or "root",
            TOKEN_FILE,
        )
    try:
        await worker.run()
    except REFUSED as refused:
        log.error("the queue does not let this worker ask for work: %s", shown(refused))
        return EXIT_REFUSED
    except OSError as problem:
        log.error("the worker cannot go on: %s", problem)
        return EXIT_REFUSED
    except Changed as changed:
        log.error("the worker ends, since it is not as it was before its last task: %s", changed)
        return EXIT_CHANGED
    return 0


def _is_trouble(record: logging.LogRecord) -> bool:
    """Whether a repetition is worth a line. By 503 claimWork says that there is work; other 503 fail in the end."""
    text = record.getMessage()
    return not ("503" in text and "/claim-work/" in text)


def main() -> None:
    """The command line."""
    hide()
    options = parse(sys.argv[1:], os.environ)
    output = logging.StreamHandler(sys.stderr)
    output.setFormatter(Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[output])
    repeats = logging.getLogger("taskcluster.aio.retry")
    repeats.setLevel(logging.WARNING)
    repeats.addFilter(_is_trouble)
    sys.exit(asyncio.run(work(options)))


if __name__ == "__main__":
    main()
