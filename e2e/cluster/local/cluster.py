# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes on this machine, without Docker: the steps from nothing to ready, and back."""

import subprocess
import sys
import time
from pathlib import Path

from e2e.cluster import nodes
from e2e.cluster.binary import build_kubernetes, build_kwok
from e2e.cluster.interface import ClusterError, NodeFacts, Part
from e2e.cluster.local import (
    cgroups,
    control_plane,
    launch,
    node,
    packages,
    pause_image,
    processes,
    sandbox,
    simulated,
    state,
)
from e2e.cluster.local.administrator import Administrator
from e2e.cluster.local.endpoints import Endpoints
from e2e.cluster.local.layout import Layout
from e2e.cluster.local.pki import Authority
from e2e.cluster.local.sandbox import Sandbox
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
        cache = f"--cache-dir={self._layout.kubectl_cache}"
        return [str(build_kubernetes()), "kubectl", f"--kubeconfig={self.kubeconfig}", cache]

    def up(self) -> None:
        self._refuse_another_profile()
        if self._profile is Profile.NODE:
            packages.require()
        binary = build_kubernetes()
        with state.only_one(self._layout.root):
            if not self._is_up(binary):
                self._remove()
                self._start_or_end(binary)
            self._simulate_nodes()

    def down(self) -> None:
        with state.only_one(self._layout.root):
            self._remove()

    def load_image(self, archive: Path) -> None:
        inside = sandbox.find(self._layout.root)
        if not inside:
            raise ClusterError(
                f"the cluster in {self._layout.root} has no node that could run an image: run `up` first"
            )
        self._import(inside, archive)

    def end_program(self, name: str) -> None:
        """Kill one program of the control plane, as what it runs on does by failing. What it has stored stays.

        Raises:
            ClusterError: it does not die.
        """
        processes.end(self._layout.root, only=name)

    def start_program(self, name: str) -> None:
        """Start a program of the control plane that has ended, as `up` started it, and return when it works.

        Raises:
            ClusterError: there is no cluster, no such program, or it does not work in time.
        """
        record = Record.read(self._layout)
        if not record:
            raise ClusterError(f"there is no cluster in {self._layout.root}: run `up` first")
        inside = sandbox.find(self._layout.root)
        batches = control_plane.programs(
            Path(record.binary), self._seen_from(inside), record.endpoints, pods_reach_it=inside is not None
        )
        found = [program for batch in batches for program in batch if program.name == name]
        if not found:
            raise ClusterError(f"{name} is no program of the control plane")
        launch.launch(found, self._layout, inside)

    def facts(self) -> NodeFacts:
        return nodes.facts(nodes.read(self.kubectl), is_local=True, can_mount_host_paths=True)

    def status(self) -> list[Part]:
        record = Record.read(self._layout)
        if not record:
            return [Part("cluster", False, f"there is none in {self._layout.root}")]
        alive = self._alive()
        names = [*record.programs, *([simulated.PROGRAM] if self._layout.log(simulated.PROGRAM).exists() else [])]
        parts = [Part(name, name in alive, str(self._layout.log(name))) for name in names]
        return [*parts, *nodes.status(self.kubectl)]

    def _start_or_end(self, binary: Path) -> None:
        began = time.monotonic()
        try:
            self._start(binary)
        except BaseException:
            # Logs stay, to be looked at; what runs would only confuse.
            processes.end(self._layout.root)
            raise
        print(f"the cluster is up after {time.monotonic() - began:.0f} s", file=sys.stderr)

    def _start(self, binary: Path) -> None:
        state.make(self._layout.root)
        match self._profile:
            case Profile.CONTROL_PLANE:
                endpoints = Endpoints.free()
                self._start_control_plane(binary, Authority.new(), endpoints, None)
            case Profile.NODE:
                endpoints = Endpoints(sandbox.NODE_ADDRESS)
                self._start_with_node(binary, endpoints)
        Record(self._profile, str(binary), endpoints, sorted(self._alive())).write(self._layout)

    def _start_control_plane(
        self, binary: Path, authority: Authority, endpoints: Endpoints, inside: Sandbox | None
    ) -> None:
        layout = self._layout
        control_plane.write_credentials(layout, endpoints, authority)
        seen = self._seen_from(inside)
        first, second = control_plane.programs(binary, seen, endpoints, pods_reach_it=inside is not None)
        for batch in (first, second):
            launch.launch(batch, layout, inside)
        # No pod can be made before; it also shows that the controllers work.
        administrator = self._administrator()
        wait_until("the default service account", lambda: administrator.has("serviceaccount", "default"), timeout=30)

    def _start_with_node(self, binary: Path, endpoints: Endpoints) -> None:
        layout = self._layout
        inside = sandbox.create(layout.root)
        cgroups.create()
        authority = Authority.new()
        self._start_control_plane(binary, authority, endpoints, inside)
        node.write_configuration(layout, endpoints, authority)
        launch.launch(node.container_programs(), layout, inside)
        pause = layout.config / "pause.tar"
        pause_image.write(pause, packages.BUSYBOX)
        self._wait_for_containerd(inside)
        self._import(inside, pause)
        self._administrator().create(node.dns_rights())
        launch.launch(node.node_programs(binary), layout, inside)
        wait_until("the node to be ready", self._node_is_ready, timeout=60)

    def _wait_for_containerd(self, inside: Sandbox) -> None:
        def answers() -> bool:
            launch.require_alive(["containerd"], self._layout)
            return not subprocess.run(inside.command(node.ctr("version")), capture_output=True, check=False).returncode

        wait_until("containerd", answers, timeout=30)

    def _node_is_ready(self) -> bool:
        launch.require_alive(["kubelet", "kube-proxy", "coredns"], self._layout)
        return any(nodes.is_ready(each) for each in nodes.read(self.kubectl))

    def _simulate_nodes(self) -> None:
        """Make the number of simulated nodes what it shall be."""
        wanted = {each["metadata"]["name"]: each for each in map(simulated.node, range(self._simulated_nodes))}
        present = {each["metadata"]["name"] for each in nodes.read(self.kubectl) if nodes.is_simulated(each)}
        if surplus := present - wanted.keys():
            self._administrator().delete("node", surplus)
        if wanted:
            self._start_kwok()
        else:
            processes.end(self._layout.root, only=simulated.PROGRAM)
        if missing := wanted.keys() - present:
            self._administrator().create(wanted[name] for name in missing)
        if wanted:
            wait_until(
                "the simulated nodes to be ready", lambda: all(map(nodes.is_ready, nodes.read(self.kubectl))), 60
            )

    def _start_kwok(self) -> None:
        record = Record.read(self._layout)
        assert record is not None
        if simulated.PROGRAM in self._alive():
            return
        inside = sandbox.find(self._layout.root)
        simulated.write_configuration(self._layout)
        program = simulated.program(build_kwok(), self._seen_from(inside), record.endpoints)
        launch.launch([program], self._layout, inside)

    def _seen_from(self, inside: Sandbox | None) -> Layout:
        return Layout(sandbox.INSIDE) if inside else self._layout

    def _administrator(self) -> Administrator:
        return Administrator(self.kubectl)

    def _alive(self) -> set[str]:
        return {process.name for process in processes.running(self._layout.root)}

    def _import(self, inside: Sandbox, archive: Path) -> None:
        # Through standard input, as the archive may lie where the sandbox has something else.
        argv = inside.command(node.ctr("images", "import", "-"))
        with archive.open("rb") as content:
            done = subprocess.run(argv, stdin=content, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"{archive} could not be loaded: {done.stderr.strip()}")

    def _refuse_another_profile(self) -> None:
        record = Record.read(self._layout)
        if record and record.profile != self._profile and self._alive():
            raise ClusterError(
                f"the cluster in {self._layout.root} is up with the profile {record.profile.value}, "
                f"not {self._profile.value}: run `down` first, or give another --state folder"
            )

    def _is_up(self, binary: Path) -> bool:
        record = Record.read(self._layout)
        return (
            record is not None
            and record.binary == str(binary)
            and self._alive() >= set(record.programs)
            and launch.answers(f"{record.endpoints.server}/readyz", self._layout.certificate("ca"))
        )

    def _remove(self) -> None:
        if sandbox.remove(self._layout.root):
            cgroups.remove()
        state.remove(self._layout.root)
