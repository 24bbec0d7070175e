# SPDX-License-Identifier: Apache-2.0
"""What faults act on: a control plane, two replicas of the operator, and the resources with their engines on simulated nodes."""

import json
import random
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from e2e.chaos.operator.proxy import Trouble
from e2e.chaos.operator.replicas import Replica, Replicas
from e2e.chaos.operator.resting import Rest, Standing
from e2e.chaos.operator.snapshot import Snapshot
from e2e.cluster.interface import GaveUpError
from e2e.cluster.local.cluster import LocalCluster
from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl, KubectlError, Manifest
from tandem_operator.api.names import KIND

SETTLES_WITHIN = 60.0
"""Seconds after a fault in which all must be as before."""
SHOWS_WITHIN = 60.0
"""Seconds in which what a fault is to bring about must be seen."""
NO_ANSWER = (KubectlError, subprocess.TimeoutExpired)
"""What an API server that doesn't answer comes to."""
_SETTLED_FOR = 1.0
_LOOKED_EVERY = 0.2


class Scene:
    """All of it, and what faults have taken away on purpose.

    Args:
        cluster: whose programs may be ended.
        state: its folder.
        folder: for what faults have to write down.
        kubectl: with the rights of everybody but the operator, past the proxies, in the resources' namespace.
        replicas: the operator.
        rights: objects by which the operator has its rights.
        seed: of what is drawn.
        slack: how many times as long as on an idle machine everything may take.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        state: Path,
        *,
        folder: Path,
        kubectl: Kubectl,
        replicas: Replicas,
        rights: Sequence[Manifest],
        seed: int,
        slack: float,
    ) -> None:
        self.cluster = cluster
        self.state = state
        self.folder = folder
        self.kubectl = kubectl
        self.replicas = replicas
        self.rights = rights
        self.random = random.Random(f"scene {seed}")
        self.slack = slack
        self.removed: set[str] = set()
        """UIDs of pods and resources that the present fault has removed."""
        self.before = Standing({}, {}, {}, {})
        """What there was before it."""

    def begin(self, standing: Standing) -> None:
        """From now on this is what there has to be."""
        self.before = standing
        self.removed.clear()

    def settle(self) -> Rest:
        """Return when all is as it was, and is so for a moment. Replicas that end or aren't well are started anew meanwhile.

        Raises:
            GaveUpError: it doesn't come. The text says what is wrong.
        """
        end = time.monotonic() + SETTLES_WITHIN * self.slack
        first: float | None = None
        while True:
            self.replicas.tend()
            at = time.monotonic()
            snapshot, wrong = self._wrong()
            if wrong:
                first = None
                if at > end:
                    raise GaveUpError(f"not as before after {SETTLES_WITHIN * self.slack:.0f} s: {'; '.join(wrong)}")
            elif snapshot is not None:
                first = first or at
                if at - first >= _SETTLED_FOR:
                    return Rest(first, snapshot)
            time.sleep(_LOOKED_EVERY)

    def _wrong(self) -> tuple[Snapshot | None, list[str]]:
        try:
            snapshot = self.look()
        except NO_ANSWER as error:
            return None, [str(error)]
        wrong = [*self.before.lacks(snapshot), *snapshot.ghosts(), *snapshot.unsettled()]
        if (leader := self.replicas.leader()) is None:
            wrong.append("nobody leads")
        elif not self.replicas.other(leader).is_ready():
            wrong.append("the standby is not ready")
        return snapshot, wrong

    def look(self) -> Snapshot:
        """What there is.

        Raises:
            KubectlError: the API server doesn't answer.
        """
        return Snapshot.take(self.kubectl)

    def until(self, what: str, is_so: Callable[[], object], within: float = SHOWS_WITHIN) -> None:
        """Return when it is so. An API server that doesn't answer meanwhile is asked again.

        Raises:
            GaveUpError: it doesn't come.
        """

        def holds() -> bool:
            with suppress(*NO_ANSWER):
                return bool(is_so())
            return False

        wait_until(what, holds, within * self.slack)

    def leader(self) -> Replica:
        """Who leads, as soon as somebody does.

        Raises:
            GaveUpError: nobody does.
        """
        self.until("a leader", self.replicas.leader)
        leader = self.replicas.leader()
        return leader if leader is not None else self.leader()

    def trouble(self, trouble: Trouble | None) -> None:
        """Have this between both replicas and the API server."""
        for each in self.replicas.all:
            each.proxy.trouble = trouble

    def delete_engines(self, count: int = 1, resource: str | None = None) -> list[Manifest]:
        """Delete so many pods of engines, of one resource or of any; which they were."""
        snapshot = self.look()
        pods = sorted(
            (pod for name, own in snapshot.engines.items() if resource in (None, name) for pod in own),
            key=lambda pod: str(pod["metadata"]["name"]),
        )
        chosen = self.random.sample(pods, count)
        self.removed.update(pod["metadata"]["uid"] for pod in chosen)
        self.kubectl.run("delete", "pod", "--wait=false", *(pod["metadata"]["name"] for pod in chosen))
        return chosen

    def until_gone(self, pods: list[Manifest]) -> None:
        """Return when these pods don't exist any more."""
        uids = {pod["metadata"]["uid"] for pod in pods}
        self.until("pods to be gone", lambda: uids.isdisjoint(self.look().pods))

    def remove_resource(self, name: str) -> dict[str, Any]:
        """Delete a resource, without waiting for what is its own; how it was asked for."""
        snapshot = self.look()
        self.removed.update(pod["metadata"]["uid"] for pod in snapshot.engines[name])
        resource = snapshot.resources[name]
        self.removed.add(resource["metadata"]["uid"])
        self.kubectl.delete(KIND.lower(), name, "--wait=false")
        kept = {"name": name}
        return {"apiVersion": resource["apiVersion"], "kind": KIND, "metadata": kept, "spec": resource["spec"]}

    def any_resource(self) -> str:
        """Drawn from those that there are."""
        return self.random.choice(sorted(self.look().resources))

    def patch(self, kind: str, name: str, patch: dict[str, Any], *options: str) -> None:
        """Merge this into an object."""
        self.kubectl.run("patch", kind, name, "--type=merge", "-p", json.dumps(patch), *options)
