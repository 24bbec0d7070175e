# SPDX-License-Identifier: Apache-2.0
"""`python -m e2e.bench.topology`: 1,000 engines on simulated nodes, brought up and changed (see `--help`)."""

import argparse
import gc
import signal
import sys
from collections.abc import Sequence

from e2e.bench.topology import course, node
from e2e.cache import BuildError
from e2e.cluster.interface import ClusterError

SMALL = {"resources": 5, "engines": 100, "rounds": 30, "nodes": 3, "reads": 10}
"""Whether it works, in three minutes."""


def main(arguments: Sequence[str]) -> int:
    """Run it."""
    options = _options(arguments)
    try:
        if options.only != "node":
            course.run(options.resources, options.engines, options.rounds, options.nodes, compared=not options.alone)
        if options.only != "fleet":
            node.run(options.reads, course.USUAL_LEASE)
    except (BuildError, ClusterError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m e2e.bench.topology", description=__doc__)
    parser.add_argument("--resources", type=int, default=50)
    parser.add_argument("--engines", type=int, default=1_000, help="of all resources together")
    parser.add_argument("--rounds", type=int, default=120, help="of changes; each is two or three changes")
    parser.add_argument("--nodes", type=int, default=10, help="that get lost")
    parser.add_argument("--reads", type=int, default=30, help="rounds of changes that are read on a real node, as root")
    parser.add_argument("--only", choices=("fleet", "node"), help="the simulated engines, or those of the real node")
    parser.add_argument("--alone", action="store_true", help="without LeaderWorkerSet's DisaggregatedSets")
    parser.add_argument("--small", action="store_true", help="few of everything: does it all work?")
    options = parser.parse_args(arguments)
    if options.small:
        parser.set_defaults(**SMALL)
        options = parser.parse_args(arguments)
    return options


if __name__ == "__main__":
    # It holds 1,000 pods as JSON, in which there are no cycles: a collection would take part of a second, and count as the operator's.
    gc.disable()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the cluster ends with this process
    sys.exit(main(sys.argv[1:]))
