# SPDX-License-Identifier: Apache-2.0
"""Command line: make faults of the operator and of all that it stands on, and fail if anything is left of one that must not be."""

import argparse
import sys
import time
from pathlib import Path

from e2e.cache import BuildError
from e2e.chaos.operator.run import FAULTS, Plan, chaos
from e2e.cluster.interface import ClusterError
from e2e.kubectl import KubectlError
from e2e.long_run import begin
from e2e.signals import end_in_order_when_told

_OPTIONS = {
    "faults": "how many, each kind once before one comes again",
    "slack": "how many times as long as on an idle machine everything may take",
    "only": f"these kinds, separated by commas, in this order; there are {', '.join(FAULTS)}",
}


def main() -> None:
    """Exit status 1: something failed, or the run was stopped, and all logs are kept."""
    end_in_order_when_told()
    parser = argparse.ArgumentParser(prog="python -m e2e.chaos.operator", description=__doc__)
    run = begin(Plan, parser, sys.argv[1:], kept=Path(".state/chaos-operator"), options=_OPTIONS)
    if unknown := set(run.plan.course()) - FAULTS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    began = time.monotonic()
    try:
        seen = chaos(
            run.plan,
            run.folder,
            run.kept,
            lambda text: print(f"{time.monotonic() - began:.0f} s: {text}", flush=True),
        )
    except (BuildError, ClusterError, KubectlError) as error:
        run.end([], [f"it did not come to faults: {error}"])
    except KeyboardInterrupt:
        run.end([], ["stopped before its time"])
    else:
        run.end(seen.figures(), list(seen.failures()))


if __name__ == "__main__":
    main()
