# SPDX-License-Identifier: Apache-2.0
"""Command line: soak for so many minutes, print what happened, and fail if anything happened that must not."""

import argparse
import asyncio
import secrets
import shutil
import sys
import time
from pathlib import Path

from e2e.cluster.interface import GaveUpError
from e2e.engine.environment import build_environment
from e2e.signals import end_in_order_when_told
from e2e.soak.fleet import StartError
from e2e.soak.run import Plan, soak
from e2e.soak.tally import Tally

KEPT = Path(".state/soak")


def main() -> None:
    """Exit status 1: something failed, or the run was stopped, and all logs are kept."""
    end_in_order_when_told()
    parser = argparse.ArgumentParser(prog="python -m e2e.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=Plan.minutes, help="of load and faults (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="draw the same faults and conversations again")
    for name, text in (
        ("prefill", "prefill engines"),
        ("decode", "decode engines"),
        ("clients", "conversations at a time"),
        ("pause", "mean seconds between faults"),
        ("slack", "how many times as long as on an idle machine everything may take"),
    ):
        default = getattr(Plan, name)
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"{text} (default: %(default)s)")
    options = parser.parse_args()
    options.seed = secrets.randbits(31) if options.seed is None else options.seed
    plan = Plan(**vars(options))
    folder = KEPT.absolute() / f"{time.strftime('%Y%m%d-%H%M%S')}-{plan.seed}"
    folder.mkdir(parents=True)
    print(f"seed {plan.seed}; logs and journals in {folder}", flush=True)
    tally = Tally(folder / "events.log")
    stopped = ""
    try:
        asyncio.run(soak(plan, build_environment(), tally, folder, KEPT.absolute()))
    except (StartError, GaveUpError) as error:
        stopped = f"{error}\n"
    except KeyboardInterrupt:
        stopped = "stopped before its time\n"
    print("\n".join(tally.figures()))
    if stopped or not tally.good:
        sys.exit(f"{stopped}seed {plan.seed}; everything is kept in {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
