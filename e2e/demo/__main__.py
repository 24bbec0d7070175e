# SPDX-License-Identifier: Apache-2.0
"""Command line of the demo."""

import argparse
import subprocess
import sys
from pathlib import Path

import openai

from e2e.cache import BuildError
from e2e.cluster import chosen_cluster
from e2e.cluster.interface import ClusterError
from e2e.demo.run import run_demo
from e2e.installation import InstallationError
from e2e.kubectl import KubectlError
from e2e.ready import NotReadyError

CHART = Path(".state/demo.svg")
WHERE_TO_LOOK = """
What to look at:
  .venv/bin/python -m e2e.cluster status                      the cluster and its logs
  .venv/bin/python -m e2e.cluster kubectl get pdi,pods -A     the resource and its pods
  .venv/bin/python -m e2e.cluster kubectl describe pdi        conditions and events
  .venv/bin/python -m e2e.cluster kubectl -n tandem-system logs -l app.kubernetes.io/name=tandem
`make demo` goes on from where it stopped; `make demo-down` removes everything."""


def main() -> int:
    """Run the demo or remove it; 0 when it went well."""
    parser = argparse.ArgumentParser(prog="python -m e2e.demo", description=__doc__)
    parser.add_argument("command", choices=("up", "down"))
    parser.add_argument("--no-compare", action="store_true", help="hold the conversation over Push only")
    parser.add_argument(
        "--chart", type=Path, default=CHART, help="where the comparison's chart goes (default: %(default)s)"
    )
    options = parser.parse_args()
    try:
        cluster = chosen_cluster()
        if options.command == "up":
            run_demo(cluster, None if options.no_compare else options.chart)
        else:
            cluster.down()
            print("The demo's cluster is gone; what is expensive to build stays in the cache.")
    except KeyboardInterrupt:
        print(f"\nStopped.{WHERE_TO_LOOK}", file=sys.stderr)
        return 130
    except (
        BuildError,
        ClusterError,
        InstallationError,
        KubectlError,
        NotReadyError,
        openai.APIError,
        OSError,
        subprocess.SubprocessError,
    ) as error:
        print(f"\nThe demo stopped: {error}{WHERE_TO_LOOK}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
