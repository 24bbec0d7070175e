# SPDX-License-Identifier: Apache-2.0
"""One engine pod, and pairs of them."""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from tandem_connector.contract.types import Role, pod_of
from tandem_operator.api.base import ApiModel
from tandem_operator.api.status import Reason
from tandem_operator.kubectl.views.seen import Seen
from tandem_operator.plan.conversation import Standing
from tandem_operator.plan.pods import EnginePod
from tandem_operator.plan.quarantine import held_in
from tandem_operator.plan.revision import ENGINE_CONTAINER
from tandem_operator.plan.troubles import pod_trouble


class State(StrEnum):
    """What an engine pod is at, in one word."""

    PENDING = "pending"
    """It has no node yet."""
    STARTING = "starting"
    """It doesn't answer yet."""
    FAILING = "failing"
    """It doesn't become ready by waiting alone."""
    READY = "ready"
    """It answers."""
    QUARANTINED = "quarantined"
    """Its pairs keep failing, and it is out of use."""
    DRAINING = "draining"
    """It ends, or its node is gone."""


class PairState(StrEnum):
    """What is known of a pair."""

    SHOWN = "shown"
    """KV was seen to move both ways, and to be right."""
    FAILED = "failed"
    OPEN = "open"
    """Nothing was shown yet."""
    SETTLING = "settling"
    """Only one side has been told of the other."""


class Engine(ApiModel):
    """One engine pod."""

    pod: str
    role: Role
    state: State
    takes_turns: bool
    """Whether the front door may use it."""
    revision: str
    node: str | None
    zone: str | None
    layers: tuple[str, ...]
    """Network nodes, from the top of the network down."""
    address: str | None
    ranks: int
    """Data-parallel ranks."""
    restarts: int
    """Of its engine's container."""
    generation: int | None
    """Of its peer table; None: it has none."""
    peers: tuple[str, ...]
    """Pods of the other role in its peer table."""
    heir: str | None
    """Pod that is to have what it holds when it ends."""
    trouble: str | None
    """What keeps it from becoming ready, if anything but time does."""
    fabric: str | None
    """Over what it says that it exchanges KV."""


class Pair(ApiModel):
    """A prefill engine and a decode engine that know each other."""

    prefill: str
    decode: str
    state: PairState
    reason: Reason | None = None
    detail: str = ""


def engines(seen: Seen) -> tuple[Engine, ...]:
    """All that haven't ended."""
    status = seen.observed.resource.status
    held = held_in(status.quarantined) if status else frozenset()
    return tuple(_engine(pod, is_held=pod.uid in held) for pod in seen.pods)


def by_number(pod: str) -> tuple[str, int, str]:
    """What to sort pods by so that 10 comes after 9: the name up to its number in a StatefulSet, and that."""
    before, _, number = pod.rpartition("-")
    return (before, int(number), "") if number.isdecimal() else (pod, 0, pod)


def pairs(pods: Sequence[EnginePod]) -> tuple[Pair, ...]:
    """Of the tables of both sides."""
    known = {pod.uid: pod for pod in pods}
    told: dict[tuple[str, str], set[Role]] = {}
    for pod in pods:
        for other in _peers(pod):
            if other in known:
                pair = (pod.uid, other) if pod.role is Role.PREFILL else (other, pod.uid)
                told.setdefault(pair, set()).add(pod.role)
    found = (_pair(known[prefill], known[decode], sides) for (prefill, decode), sides in told.items())
    return tuple(sorted(found, key=lambda pair: (by_number(pair.decode), by_number(pair.prefill))))


def _peers(pod: EnginePod) -> Iterator[str]:
    """UIDs of the pods of the other role in its table."""
    return (pod_of(peer.engine) for peer in (pod.table.peers if pod.table else ()) if peer.role is pod.role.other)


def _engine(pod: EnginePod, *, is_held: bool) -> Engine:
    table, trouble = pod.table, pod_trouble(pod)
    heir = table.heir if table else None
    named = {peer.engine: peer.pod for peer in (table.peers if table else ())}
    fabric = pod.record.fabric if pod.record else None
    return Engine(
        pod=pod.name,
        role=pod.role,
        state=_state(pod, is_held=is_held, fails=trouble is not None),
        takes_turns=pod.takes_requests,
        revision=pod.revision,
        node=pod.node,
        zone=pod.network.zone,
        layers=pod.network.layers,
        address=pod.peer.address.host if pod.peer else None,
        ranks=pod.ranks,
        restarts=_restarts(pod),
        generation=table.generation if table else None,
        peers=tuple(sorted(peer.pod for peer in (table.peers if table else ()) if peer.role is pod.role.other)),
        heir=named.get(heir) if heir else None,
        trouble=trouble.message.removeprefix(f"pod {pod.name}: ") if trouble else None,
        fabric=f"{fabric.backend} {fabric.provider}".strip() if fabric else None,
    )


def _restarts(pod: EnginePod) -> int:
    """Of its engine's container."""
    containers = pod.manifest.get("status", {}).get("containerStatuses") or ()
    return next((each.get("restartCount", 0) for each in containers if each["name"] == ENGINE_CONTAINER), 0)


def _state(pod: EnginePod, *, is_held: bool, fails: bool) -> State:
    if pod.terminating:
        return State.DRAINING
    if is_held:
        return State.QUARANTINED
    if pod.ready:
        return State.READY
    if fails and pod.node:
        return State.FAILING
    return State.STARTING if pod.node else State.PENDING


def _pair(prefill: EnginePod, decode: EnginePod, sides: set[Role]) -> Pair:
    record = decode.record.pairs.get(prefill.peer.engine) if decode.record and prefill.peer else None
    if len(sides) < len(Role):
        return Pair(prefill=prefill.name, decode=decode.name, state=PairState.SETTLING)
    if record is None:
        return Pair(prefill=prefill.name, decode=decode.name, state=PairState.OPEN)
    states = {Standing.SHOWN: PairState.SHOWN, Standing.FAILED: PairState.FAILED, Standing.OPEN: PairState.OPEN}
    return Pair(
        prefill=prefill.name,
        decode=decode.name,
        state=states[record.standing],
        reason=record.reason,
        detail=record.detail,
    )
