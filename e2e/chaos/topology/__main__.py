# SPDX-License-Identifier: Apache-2.0
"""Command line: let engines come and go for so many minutes, print what happened, and fail if anything happened that must not."""

import argparse
import secrets
import shutil
import sys
import time
from pathlib import Path

from e2e.chaos.topology.run import Plan, chaos
from e2e.cluster import chosen_cluster
from e2e.signals import end_in_order_when_told

KEPT = Path(".state/chaos-topology")


def main() -> None:
    """Exit status 1: something failed, and what the engines wrote down is kept."""
    end_in_order_when_told()
    parser = argparse.ArgumentParser(prog="python -m e2e.chaos.topology", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=Plan.minutes, help="of load and changes (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=None, help="draw the same changes and conversations again")
    parser.add_argument("--no-migrate", dest="migrate", action="store_false", help="engines hand over nothing")
    for name, text in (
        ("most", "engines at any time"),
        ("clients", "conversations at a time"),
        ("talks", "different conversations"),
        ("slack", "how many times as long as on an idle machine everything may take"),
    ):
        default = getattr(Plan, name)
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"{text} (default: %(default)s)")
    options = parser.parse_args()
    options.seed = secrets.randbits(31) if options.seed is None else options.seed
    plan = Plan(**vars(options))
    folder = KEPT.absolute() / f"{time.strftime('%Y%m%d-%H%M%S')}-{plan.seed}"
    folder.mkdir(parents=True)
    print(f"seed {plan.seed}; journals in {folder}", flush=True)
    run = chaos(plan, chosen_cluster(), folder, KEPT.absolute())
    print("\n".join(run.figures()))
    if failures := list(run.failures()):
        sys.exit("\n".join([*failures, f"seed {plan.seed}; everything is kept in {folder}"]))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
