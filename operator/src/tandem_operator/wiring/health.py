# SPDX-License-Identifier: Apache-2.0
"""Whether the process does its work, as the kubelet wants to know it."""

from tandem_operator.kube.lease import Elector
from tandem_operator.kube.observe import ResourceKey
from tandem_operator.kube.queue import WorkQueue
from tandem_operator.kube.watches import Watches


class Health:
    """Reads what the parts know of themselves.

    A cluster without an API server is not the process's fault: none of the checks fails because of it, since a restart would not help.

    Args:
        watches: know what they were told.
        queue: knows what workers are at.
        elector: knows whether there should be workers.
        longest_reconcile: seconds after which a reconcile must have ended, by its own time limit.
    """

    def __init__(
        self, watches: Watches, queue: WorkQueue[ResourceKey], elector: Elector, *, longest_reconcile: float
    ) -> None:
        self._watches = watches
        self._queue = queue
        self._elector = elector
        self._longest_reconcile = longest_reconcile

    def alive(self) -> list[str]:
        """Why the process should be restarted; empty when all is well."""
        reasons = self._watches.dead()
        if (busy := self._queue.longest_active()) > self._longest_reconcile:
            reasons.append(f"a worker has been busy with one resource for {busy:.0f} s")
        waiting = self._queue.longest_waiting()
        if self._elector.is_leader and not busy and waiting > self._longest_reconcile:
            reasons.append(f"a resource has been waiting for {waiting:.0f} s, and no worker is busy")
        return reasons

    def ready(self) -> list[str]:
        """Why the process can't do its work yet; empty when it watches everything (as leader or as standby)."""
        return [f"not watching {stream.plural} yet" for stream in self._watches.missing()]
