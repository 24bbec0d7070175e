# SPDX-License-Identifier: Apache-2.0
"""Who exchanges KV with whom, and where they are."""

from tandem_connector.contract.types import Role
from tandem_operator.api.base import ApiModel
from tandem_operator.kubectl.views.engine import Engine, Pair, engines, pairs
from tandem_operator.kubectl.views.seen import Seen


class TopologyView(ApiModel):
    """The peer tables of a resource's engines, as they are written on their pods."""

    namespace: str
    name: str
    engines: tuple[Engine, ...]
    """Prefill first, then by where they are: engines near each other stand together."""
    pairs: tuple[Pair, ...]
    unread: tuple[str, ...]
    """What couldn't be read, and why."""

    def of(self, role: Role) -> tuple[Engine, ...]:
        """Engines of one role."""
        return tuple(each for each in self.engines if each.role is role)


def topology_view(seen: Seen) -> TopologyView:
    """The tables as they were seen."""
    metadata = seen.observed.resource.metadata
    return TopologyView(
        namespace=metadata.namespace,
        name=metadata.name,
        engines=tuple(sorted(engines(seen), key=_place)),
        pairs=pairs(seen.pods),
        unread=seen.unread,
    )


def _place(engine: Engine) -> tuple[bool, str, tuple[str, ...], str, int, str]:
    return engine.role is Role.DECODE, engine.zone or "", engine.layers, engine.node or "", len(engine.pod), engine.pod
