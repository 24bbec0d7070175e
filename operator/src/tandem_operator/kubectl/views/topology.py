# SPDX-License-Identifier: Apache-2.0
"""Who exchanges KV with whom, and where they are."""

from collections.abc import Mapping

from tandem_connector.contract.types import Role
from tandem_operator.api.base import ApiModel
from tandem_operator.kubectl.views.engine import Engine, Pair, engines, pairs
from tandem_operator.kubectl.views.engine_metrics import RECEIVED_FROM, WRITTEN_TO, Reading
from tandem_operator.kubectl.views.flows import Silent
from tandem_operator.kubectl.views.pair_flows import Counted, PairFlow, pair_flows
from tandem_operator.kubectl.views.seen import Seen


class TopologyView(ApiModel):
    """The peer tables of a resource's engines, as they are written on their pods."""

    namespace: str
    name: str
    engines: tuple[Engine, ...]
    """Prefill first, then by where they are: engines near each other stand together."""
    pairs: tuple[Pair, ...]
    moved: tuple[PairFlow, ...] | None
    """What went over each pair since both its engines know each other; None: engines weren't asked."""
    unread: tuple[str, ...]
    """What couldn't be read, and why."""

    def of(self, role: Role) -> tuple[Engine, ...]:
        """Engines of one role."""
        return tuple(each for each in self.engines if each.role is role)


def topology_view(seen: Seen, readings: Mapping[str, Reading | Silent] | None = None) -> TopologyView:
    """The tables as they were seen, and what engines answered, by the pod's UID, if they were asked."""
    metadata = seen.observed.resource.metadata
    known, names = pairs(seen.pods), {pod.uid: pod.name for pod in seen.pods}
    counted, silent = {}, []
    for uid, told in (readings or {}).items():
        match told:
            case Silent(why):
                silent.append(f"{names[uid]}: {why}")
            case Reading():
                counted[names[uid]] = Counted(told.by_peer[RECEIVED_FROM], told.by_peer[WRITTEN_TO])
    return TopologyView(
        namespace=metadata.namespace,
        name=metadata.name,
        engines=tuple(sorted(engines(seen), key=_place)),
        pairs=known,
        moved=None if readings is None else pair_flows(known, counted),
        unread=(*seen.unread, *silent),
    )


def _place(engine: Engine) -> tuple[bool, str, tuple[str, ...], str, int, str]:
    return engine.role is Role.DECODE, engine.zone or "", engine.layers, engine.node or "", len(engine.pod), engine.pod
