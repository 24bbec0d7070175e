# SPDX-License-Identifier: Apache-2.0
"""`python -m e2e.cluster`: bring a cluster up, use it, take it down."""

import argparse
import os
import sys
from dataclasses import asdict
from pathlib import Path

from e2e.cache import BuildError
from e2e.cluster.choice import chosen_cluster
from e2e.cluster.interface import Cluster, ClusterError
from e2e.cluster.local.state import Profile

_ENVIRONMENT = """\
environment:
  CLUSTER       local, kind or kubeconfig; default: kind where a Docker engine answers, else local
  TANDEM_STATE  the local cluster's state folder; default: .state/local in the repository
  TANDEM_CACHE  where the built programs are kept; default: ~/.cache/tandem
"""


def main(arguments: list[str]) -> int:
    """Do what the arguments say; the exit status."""
    # What follows `kubectl` is kubectl's, options included, which argparse would try to understand.
    end = arguments.index("kubectl") + 1 if "kubectl" in arguments else len(arguments)
    options = _parser().parse_args(arguments[:end])
    try:
        cluster = chosen_cluster(
            state=vars(options).get("state"),
            profile=Profile.CONTROL_PLANE if options.control_plane_only else Profile.NODE,
            simulated_nodes=options.simulated_nodes,
        )
        return _do(options, cluster, arguments[end:])
    except (BuildError, ClusterError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: run `up` again, or `down` to remove what was started", file=sys.stderr)
        return 130


def _do(options: argparse.Namespace, cluster: Cluster, for_kubectl: list[str]) -> int:
    match options.action:
        case "up":
            cluster.up()
            print(f"export KUBECONFIG='{cluster.kubeconfig}'")
        case "down":
            cluster.down()
        case "kubeconfig":
            print(cluster.kubeconfig)
        case "load":
            for archive in options.archives:
                cluster.load_image(archive)
        case "facts":
            for name, value in asdict(cluster.facts()).items():
                print(f"{name}={value}")
        case "status":
            return _status(cluster)
        case "kubectl":
            os.execvp(cluster.kubectl[0], [*cluster.kubectl, *for_kubectl])
    return 0


def _status(cluster: Cluster) -> int:
    parts = cluster.status()
    for part in parts:
        print(f"{'ok' if part.is_well else 'BAD':<4}{part.name:<26}{part.detail}")
    return 0 if all(part.is_well for part in parts) else 1


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    common.add_argument("--state", type=Path, metavar="FOLDER", help="state folder of the local cluster")
    parser = argparse.ArgumentParser(
        prog="python -m e2e.cluster",
        parents=[common],
        description=__doc__,
        epilog=_ENVIRONMENT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(control_plane_only=False, simulated_nodes=0)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name: str, what: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=what, parents=[common])

    up = action("up", "start the cluster; nothing happens when it is up")
    up.add_argument(
        "--control-plane-only", action="store_true", help="API server and controllers, no node; needs no root"
    )
    simulated = "nodes with the devices of a P5en instance that only pretend to run pods"
    up.add_argument("--simulated-nodes", type=int, metavar="N", default=0, help=simulated)
    action("down", "remove the cluster and all that it left")
    action("kubeconfig", "print the path of the kubeconfig file")
    load = action("load", "make the images of OCI archives available to pods")
    load.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE")
    action("facts", "print what is known of the nodes")
    action("status", "print the parts of the cluster; the exit status is 0 if all are well")
    action("kubectl", "run kubectl with the arguments that follow")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
