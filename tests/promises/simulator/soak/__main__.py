"""Runs a soak. `./dev chaos --simulated` calls this."""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time

from tests.promises.simulator.soak.run import Extent, Soak


def main() -> int:
    """Returns exit code 0 only if all invariants held, and nothing has grown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if arguments.seed is None else arguments.seed
    logging.getLogger("taskcluster").setLevel(logging.CRITICAL)  # of faults that are made on purpose
    soak = Soak(seed, Extent(), lambda text: print(text, flush=True), time.monotonic)
    problems = soak.run(minutes=arguments.minutes)
    for text in problems:
        print(f"wrong: {text}")
    print("The soak failed." if problems else "Nothing was lost, nothing has grown.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
