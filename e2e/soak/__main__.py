# SPDX-License-Identifier: Apache-2.0
"""Command line: soak for so many minutes, print what happened, and fail if anything happened that must not."""

import argparse
import asyncio
import sys
from pathlib import Path

from e2e.cluster.interface import GaveUpError
from e2e.engine.environment import build_environment
from e2e.long_run import begin
from e2e.signals import end_in_order_when_told
from e2e.soak.fleet import StartError
from e2e.soak.run import Plan, soak
from e2e.soak.tally import Tally

_OPTIONS = {
    "minutes": "of load and faults",
    "prefill": "prefill engines",
    "decode": "decode engines",
    "clients": "conversations at a time",
    "pause": "mean seconds between faults",
    "slack": "how many times as long as on an idle machine everything may take",
}


def main() -> None:
    """Exit status 1: something failed, or the run was stopped, and all logs are kept."""
    end_in_order_when_told()
    parser = argparse.ArgumentParser(prog="python -m e2e.soak", description=__doc__)
    run = begin(Plan, parser, sys.argv[1:], kept=Path(".state/soak"), options=_OPTIONS)
    tally = Tally(run.folder / "events.log")
    stopped = []
    try:
        asyncio.run(soak(run.plan, build_environment(), tally, run.folder, run.kept))
    except (StartError, GaveUpError) as error:
        stopped = [str(error)]
    except KeyboardInterrupt:
        stopped = ["stopped before its time"]
    failed = [f"{failure}: {count}" for failure, count in tally.failures.items()]
    run.end(tally.figures(), [*stopped, *failed])


if __name__ == "__main__":
    main()
