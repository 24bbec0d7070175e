# SPDX-License-Identifier: Apache-2.0
"""Command line: let engines come and go for so many minutes, print what happened, and fail if anything happened that must not."""

import argparse
import sys
from pathlib import Path

from e2e.cache import BuildError
from e2e.chaos.topology.run import Plan, chaos
from e2e.cluster import chosen_cluster
from e2e.cluster.interface import ClusterError
from e2e.installation import InstallationError
from e2e.kubectl import KubectlError
from e2e.long_run import begin
from e2e.ready import NotReadyError
from e2e.signals import end_in_order_when_told

_OPTIONS = {
    "minutes": "of load and changes",
    "most": "engines at any time",
    "clients": "conversations at a time",
    "talks": "different conversations",
    "slack": "how many times as long as on an idle machine everything may take",
    "migrate": "engines hand over nothing",
}


def main() -> None:
    """Exit status 1: something failed, or the run was stopped, and what the engines wrote down is kept."""
    end_in_order_when_told()
    parser = argparse.ArgumentParser(prog="python -m e2e.chaos.topology", description=__doc__)
    run = begin(Plan, parser, sys.argv[1:], kept=Path(".state/chaos-topology"), options=_OPTIONS)
    try:
        seen = chaos(run.plan, chosen_cluster(), run.folder, run.kept)
    except (BuildError, ClusterError, InstallationError, KubectlError, NotReadyError) as error:
        run.end([], [f"it did not come to changes: {error}"])
    except KeyboardInterrupt:
        run.end([], ["stopped before its time"])
    else:
        run.end(seen.figures(), list(seen.failures()))


if __name__ == "__main__":
    main()
