# SPDX-License-Identifier: Apache-2.0
"""A resource's engines, their wiring, and what flows between two looks at all of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from tandem_connector.contract.messages import Purpose
from tandem_connector.contract.types import Role
from tandem_operator.api.base import ApiModel
from tandem_operator.api.status import ConditionType, Revision, Status
from tandem_operator.kubectl.views.engine import Engine, Pair, engines, pairs
from tandem_operator.kubectl.views.engine_metrics import Rates, Reading, Standing, rates
from tandem_operator.kubectl.views.pair_flows import Wire, told
from tandem_operator.kubectl.views.seen import Seen

FORWARD: Final = frozenset({Purpose.FORWARD})
REVERSE: Final = frozenset({Purpose.REVERSE_PUSH, Purpose.REVERSE_FETCH})
"""Purposes from decode to prefill. `MOVE` is between engines of one role, which are no pair."""


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


class PairFlow(ApiModel):
    """One pair, with bytes of KV by the second."""

    pair: Pair
    forward: float | None
    """From prefill to decode; None: engines' own sums don't tell."""
    reverse: float | None
    """From decode to prefill."""


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
    prefill_first = sorted(told_of, key=lambda each: each.engine.role is Role.DECODE)
    return FlowsView(
        namespace=resource.metadata.namespace,
        name=resource.metadata.name,
        model=resource.spec.model.name,
        ready=seen.is_ready,
        reason=f"{ready.reason}: {ready.message}" if ready else "the operator hasn't looked at it",
        revision=(resource.status or Status()).revision,
        engines=tuple(prefill_first),
        pairs=_pairs(pairs(seen.pods), told_of),
        unread=seen.unread,
    )


def _engine(engine: Engine, before: Reading | Silent | None, now: Reading | Silent) -> EngineFlow:
    match now:
        case Silent(why):
            return EngineFlow(engine=engine, silent=why, standing=None, rates=None)
        case Reading():
            done = rates(before, now) if isinstance(before, Reading) else None
            return EngineFlow(engine=engine, silent=None, standing=now.standing, rates=done)


def _pairs(known: tuple[Pair, ...], flows_: Iterable[EngineFlow]) -> tuple[PairFlow, ...]:
    by_pod = {each.engine.pod: each.rates for each in flows_}
    forward = {each: Wire(sender=each.prefill, receiver=each.decode) for each in known}
    reverse = {each: Wire(sender=each.decode, receiver=each.prefill) for each in known}
    over = {
        **_told(forward.values(), by_pod, FORWARD),
        **_told(reverse.values(), by_pod, REVERSE),
    }
    return tuple(PairFlow(pair=each, forward=over[forward[each]], reverse=over[reverse[each]]) for each in known)


def _told(
    wires: Iterable[Wire], by_pod: Mapping[str, Rates | None], purposes: frozenset[Purpose]
) -> dict[Wire, float | None]:
    written = {pod: sum(each.written.get(why, 0) for why in purposes) if each else None for pod, each in by_pod.items()}
    received = {
        pod: sum(each.received.get(why, 0) for why in purposes) if each else None for pod, each in by_pod.items()
    }
    return told(tuple(wires), written, received)
