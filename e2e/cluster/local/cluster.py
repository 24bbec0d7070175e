# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes on this machine, without Docker: the steps from nothing to ready, and back."""

import subprocess
import sys
import time
from pathlib import Path

from e2e.cluster import nodes
from e2e.cluster.binary import build_kubernetes
from e2e.cluster.interface import ClusterError, NodeFacts, Part
from e2e.cluster.local import control_plane, launch, processes, sandbox, state
from e2e.cluster.local.endpoints import Endpoints
from e2e.cluster.local.layout import Layout
from e2e.cluster.local.pki import Authority
from e2e.cluster.local.state import Profile, Record
from e2e.cluster.progress import wait_until


class LocalCluster:
    """The cluster whose state is in one folder. Several may run at once, of which one may have a node.

    Args:
        root: The state folder.
        profile: What `up` makes.
        simulated_nodes: How many nodes with the devices of a P5en instance `up` adds; they only pretend to run pods.
    """

    name = "local"

    def __init__(self, root: Path, profile: Profile = Profile.NODE, simulated_nodes: int = 0) -> None:
        self._layout = Layout(root.absolute())
        self._profile = profile
        self._simulated_nodes = simulated_nodes

    @property
    def kubeconfig(self) -> Path:
        return self._layout.kubeconfig

    @property
    def kubectl(self) -> list[str]:
        return [str(build_kubernetes()), "kubectl", f"--kubeconfig={self.kubeconfig}"]

    def up(self) -> None:
        binary = build_kubernetes()
        with state.only_one(self._layout.root):
            if self._is_up(binary):
                return
            self._remove()
            began = time.monotonic()
            try:
                self._start(binary)
            except BaseException:
                # Logs stay, to be looked at; what runs would only confuse.
                processes.end(self._layout.root)
                raise
            print(f"the cluster is up after {time.monotonic() - began:.0f} s", file=sys.stderr)

    def down(self) -> None:
        with state.only_one(self._layout.root):
            self._remove()

    def load_image(self, archive: Path) -> None:
        raise NotImplementedError

    def facts(self) -> NodeFacts:
        return nodes.facts(nodes.read(self.kubectl), is_local=True, can_mount_host_paths=True)

    def status(self) -> list[Part]:
        raise NotImplementedError

    def _start(self, binary: Path) -> None:
        layout = self._layout
        state.make(layout.root)
        endpoints = Endpoints.free()
        authority = Authority.new()
        control_plane.write_credentials(layout, endpoints, authority)
        first, second = control_plane.programs(binary, layout, endpoints, pods_reach_it=False)
        for batch in (first, second):
            launch.launch(batch, layout, lambda argv: argv)
        self._wait_for_service_account()
        Record(self._profile, str(binary), endpoints).write(layout)

    def _wait_for_service_account(self) -> None:
        """No pod can be made before; it also shows that the controllers work."""
        argv = [*self.kubectl, "get", "serviceaccount", "default", "--namespace=default"]
        wait_until(
            "the default service account",
            lambda: not subprocess.run(argv, capture_output=True, check=False).returncode,
            30,
        )

    def _is_up(self, binary: Path) -> bool:
        record = Record.read(self._layout)
        if not record or not processes.running(self._layout.root):
            return False
        if record.profile != self._profile:
            raise ClusterError(
                f"the cluster in {self._layout.root} is up with the profile {record.profile.value}, "
                f"not {self._profile.value}: run `down` first, or give another --state folder"
            )
        return record.binary == str(binary) and launch.answers(
            f"{record.endpoints.server}/readyz", self._layout.certificate("ca")
        )

    def _remove(self) -> None:
        sandbox.remove(self._layout.root)
        state.remove(self._layout.root)
