# SPDX-License-Identifier: Apache-2.0
"""A resource's engines, their wiring, and what flows between two looks at all of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tandem_connector.contract.types import Role
from tandem_operator.api.base import ApiModel
from tandem_operator.api.status import ConditionType, Revision, Status
from tandem_operator.kubectl.views.engine import Engine, by_number, engines, pairs
from tandem_operator.kubectl.views.engine_metrics import Rates, Reading, Standing, rates
from tandem_operator.kubectl.views.pair_flows import Counted, PairFlow, pair_flows
from tandem_operator.kubectl.views.seen import Seen


@dataclass(frozen=True)
class Silent:
    """An engine that couldn't be read."""

    why: str


Readings: TypeAlias = Mapping[str, Reading | Silent]
"""Of one look, by the pod's UID."""


class EngineFlow(ApiModel):
    """One engine pod."""

    engine: Engine
    silent: str | None
    """Why its metrics couldn't be read; None: they were."""
    standing: Standing | None
    """None: not read."""
    rates: Rates | None
    """None: not read twice."""


class FlowsView(ApiModel):
    """One look, compared with the one before."""

    namespace: str
    name: str
    model: str
    ready: bool
    reason: str
    """In the operator's words, whether ready or not."""
    revision: Revision
    engines: tuple[EngineFlow, ...]
    """Prefill first."""
    pairs: tuple[PairFlow, ...]
    """By the second."""
    unread: tuple[str, ...]
    """What couldn't be read of the resource's surroundings, and why."""


def flows(seen: Seen, before: Readings, now: Readings) -> FlowsView:
    """The resource as it was seen, with what its engines said then and the time before."""
    resource = seen.observed.resource
    ready = seen.conditions.get(ConditionType.READY)
    told_of = [
        _engine(engine, before.get(pod.uid), now.get(pod.uid, Silent("it wasn't asked")))
        for pod, engine in zip(seen.pods, engines(seen), strict=True)
    ]
    prefill_first = sorted(told_of, key=lambda each: (each.engine.role is Role.DECODE, by_number(each.engine.pod)))
    return FlowsView(
        namespace=resource.metadata.namespace,
        name=resource.metadata.name,
        model=resource.spec.model.name,
        ready=seen.is_ready,
        reason=f"{ready.reason}: {ready.message}" if ready else "the operator hasn't looked at it",
        revision=(resource.status or Status()).revision,
        engines=tuple(prefill_first),
        pairs=pair_flows(
            pairs(seen.pods),
            {
                each.engine.pod: Counted(received=each.rates.received_from, written=each.rates.written_to)
                for each in told_of
                if each.rates
            },
        ),
        unread=seen.unread,
    )


def _engine(engine: Engine, before: Reading | Silent | None, now: Reading | Silent) -> EngineFlow:
    match now:
        case Silent(why):
            return EngineFlow(engine=engine, silent=why, standing=None, rates=None)
        case Reading():
            done = rates(before, now) if isinstance(before, Reading) else None
            return EngineFlow(engine=engine, silent=None, standing=now.standing, rates=done)
