"""`./dev chaos`: start a stack of its own, run, and end with exit code 0 only if nothing was lost."""

import random
import subprocess
import sys

from tools.local.appsettings import AppSettingsError
from tools.local.chaos.announced import SUBSCRIPTION
from tools.local.chaos.run import Chaos, ChaosOptions
from tools.local.child import ChildError
from tools.local.control import fail, hint, say
from tools.local.ports import PortTakenError
from tools.local.run import end_with_parent, interruptible, options
from tools.local.stack import Stack
from tools.local.state import ROOT

HOSTS = 2
TIMES = {"take": 8, "lease": 15, "retry": 0.1}
"""Seconds after which a message that a killed host had taken is visible again, after which the lock of a timer is free
(on Azure 10 minutes, and one), and between tries of a request: a host gives up failing storage after 3 seconds, not
after 25."""
SETTINGS = {
    "CLAIM_TIMEOUT_SECONDS": "10",
    "DEADLINE_DELAY_SECONDS": "1",
    "LONG_POLL_SECONDS": "5",
    "IDLE_POLL_INTERVAL_SECONDS": "0.5",
    "POLL_VISIBILITY_SECONDS": "20",
}
"""Timeouts are shorter than in a deployment, so that a run can wait for them."""


def main(port: int, *, tasks: int, workers: int, seed: int | None, by_group: bool) -> int:
    """Runs on this port; 0 only if every task was completed once, everything was announced and nothing is left over."""
    chosen = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    wanted = options(
        port,
        hosts=HOSTS,
        subscriptions=(SUBSCRIPTION,),
        in_memory=True,
        storage_apart=True,
        times=TIMES,
        by_group=by_group,
        app_settings=SETTINGS,
    )
    groups = " --by-group" * by_group
    say(f"seed {chosen}; repeat with --seed {chosen} --tasks {tasks} --workers {workers}{groups}")
    end_with_parent()
    try:
        with interruptible(), Stack.start(wanted, say) as stack:
            problems = Chaos(stack, ChaosOptions(tasks=tasks, workers=workers, seed=chosen), say).run()
    except KeyboardInterrupt:
        say("The chaos run was interrupted; its stack has ended.")
        return 130
    except (ChildError, PortTakenError, AppSettingsError) as error:
        fail(str(error))
    for text in problems:
        say(f"wrong: {text}")
    say(f"The chaos run failed; see {hint('logs', port)}" if problems else "Nothing was lost, nothing was done twice.")
    return 1 if problems else 0


def soak(*, minutes: float, seed: int | None) -> int:
    """Runs a soak in the simulator, which lies with the tests; 0 only if all held, and nothing has grown."""
    command = [sys.executable, "-m", "tests.promises.simulator.soak", "--minutes", str(minutes)]
    if seed is not None:
        command += ["--seed", str(seed)]
    try:
        return subprocess.run(command, cwd=ROOT, check=False).returncode
    except KeyboardInterrupt:
        return 130
