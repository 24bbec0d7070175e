# SPDX-License-Identifier: Apache-2.0
"""Engines whose pairs keep failing while others work: taken out of use, and restarted, each time after a longer pause.

Who is in quarantine is kept in the resource's status, since it has to outlive both the operator and the pod: it is the pod that is
deleted to restart the engine, and the next one of its name that has to prove itself.

    working --pairs keep failing--> held --its pause is over, its pod is evicted--> on trial --shown, an hour later--> working
                                     ^                                                 |
                                     +------------ pairs keep failing -----------------+
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tandem_connector.contract.types import Role
from tandem_operator.api.status import Quarantined, Reason
from tandem_operator.plan.conversation import Standing
from tandem_operator.plan.pods import EnginePod
from tandem_operator.plan.proof import ITSELF, ready_pairs
from tandem_operator.plan.sets import EngineSet
from tandem_operator.plan.stamp import stamp
from tandem_operator.plan.troubles import Trouble
from tandem_operator.plan.types import EventType
from tandem_operator.plan.verification import ENOUGH_FAILURES, PairRecord

SHARE: Final = 0.25
"""Of a role's engines, at most, are held at one time; one may always be, if another one works."""
FIRST_PAUSE: Final = timedelta(seconds=30)
"""Before the first restart; doubled with each further one."""
LONGEST_PAUSE: Final = timedelta(minutes=30)
MOST_RESTARTS: Final = 5
"""After that an engine stays where it is until somebody deletes its pod."""
REMEMBERED: Final = timedelta(hours=1)
"""For which a restarted engine is on trial."""

_NOT_THE_ENGINES: Final = frozenset({Reason.NOTHING_MOVED_BACK})
"""A prefill engine without room declines what decode offers, and is well."""


def quarantined(
    previous: Sequence[Quarantined], pods: Sequence[EnginePod], sets: Sequence[EngineSet], now: datetime
) -> tuple[Quarantined, ...]:
    """Who is in quarantine, or on trial, from now on.

    Args:
        previous: who was.
        pods: the resource's engines.
        sets: the StatefulSets that make them: whoever has no pod, and gets none from these, is forgotten.
        now: with a time zone.
    """
    by_name = {pod.name: pod for pod in pods}
    working = {pod.uid for pair in _pairs(pods) if pair.works for pod in (pair.decode, pair.prefill) if pod}
    made = {name for each in sets for name in each.pods}
    there = (each for each in previous if each.pod in by_name or each.pod in made)
    kept = [entry for each in there if (entry := _kept(each, by_name.get(each.pod), working, now))]
    held = {entry.uid for entry in kept if entry.uid}
    free = [pod for pod in pods if pod.uid not in held and not pod.terminating]
    on_trial = {entry.pod: entry for entry in kept if not entry.uid}
    entries = {entry.pod: entry for entry in kept}
    for culprit in _culprits(free):
        role = culprit.pod.role
        if sum(bool(entry.uid) and entry.role == role for entry in entries.values()) < _most(role, pods):
            entries[culprit.pod.name] = _held(culprit, on_trial.get(culprit.pod.name), now)
    return tuple(entries[name] for name in sorted(entries))


def held_in(entries: Iterable[Quarantined]) -> frozenset[str]:
    """UIDs of pods that are out of use."""
    return frozenset(entry.uid for entry in entries if entry.uid)


def to_restart(entries: Iterable[Quarantined], pods: Sequence[EnginePod], now: datetime) -> tuple[EnginePod, ...]:
    """The pods whose pause is over."""
    by_uid = {pod.uid: pod for pod in pods}
    return tuple(
        by_uid[entry.uid]
        for entry in entries
        if entry.uid in by_uid and not by_uid[entry.uid].terminating and (at := restart_of(entry)) and at <= now
    )


def restart_of(entry: Quarantined) -> datetime | None:
    """When the pod is to be restarted; None: not, or not any more."""
    return datetime.fromisoformat(entry.restart_at) if entry.uid and entry.restart_at else None


def next_restart(entries: Iterable[Quarantined]) -> datetime | None:
    """When the first pause is over; None: none is."""
    return min(filter(None, map(restart_of, entries)), default=None)


def troubles_of(entries: Iterable[Quarantined]) -> Iterator[Trouble]:
    """Those that are out of use, in words."""
    return (Trouble(Reason.QUARANTINED, _words(entry)) for entry in entries if entry.uid)


def events_of(previous: Iterable[Quarantined], current: Iterable[Quarantined]) -> Iterator[EventType]:
    """What has happened in between."""
    before = {entry.pod: entry for entry in previous}
    for entry in current:
        last = before.get(entry.pod)
        if entry.uid and (last is None or last.uid != entry.uid):
            yield EventType(Reason.QUARANTINED, warning=True, message=_words(entry))
        elif last is not None and last.uid and not entry.uid:
            words = f"{entry.pod} was made anew, restart {entry.restarts} of {MOST_RESTARTS}; its pairs have to work for an hour"
            yield EventType(Reason.RESTARTED, warning=False, message=words)


def _words(entry: Quarantined) -> str:
    what = f"{entry.pod} takes no turns and has no peers: its pairs keep failing while others work ({entry.reason}: {entry.message})"
    if entry.restart_at:
        return f"{what}; it is restarted at {entry.restart_at}"
    return f"{what}; {entry.restarts} restarts did not help: look at its node and its log, then delete the pod"


@dataclass(frozen=True)
class _Pair:
    decode: EnginePod
    prefill: EnginePod | None
    """None: decode by itself."""
    record: PairRecord

    @property
    def works(self) -> bool:
        return self.record.standing is Standing.SHOWN

    @property
    def keeps_failing(self) -> bool:
        return (
            self.record.standing is Standing.FAILED
            and self.record.failures >= ENOUGH_FAILURES
            and self.record.reason not in _NOT_THE_ENGINES
        )

    def has(self, pod: EnginePod) -> bool:
        return pod.uid == self.decode.uid or (self.prefill is not None and pod.uid == self.prefill.uid)


@dataclass(frozen=True)
class _Culprit:
    pod: EnginePod
    failing: tuple[_Pair, ...]


def _culprits(pods: Sequence[EnginePod]) -> list[_Culprit]:
    """Engines of which each pair that says anything keeps failing, while another engine of the role has one that works.

    An engine with more such pairs comes first, and explains them: whoever has no other failure is no culprit then.
    """
    pairs = list(_pairs(pods))
    found: list[_Culprit] = []
    while True:
        candidates = [candidate for pod in pods if (candidate := _candidate(pod, pods, pairs))]
        if not candidates:
            return found
        worst = min(candidates, key=lambda each: (-len(each.failing), each.pod.role is Role.DECODE, each.pod.name))
        found.append(worst)
        pairs = [pair for pair in pairs if not pair.has(worst.pod)]


def _pairs(pods: Sequence[EnginePod]) -> Iterator[_Pair]:
    by_engine = {str(pod.peer.engine): pod for pod in pods if pod.peer}
    for pod in pods:
        known = {ITSELF, *ready_pairs(pod)}
        for peer, record in pod.record.pairs.items() if pod.record else ():
            if peer in known and (peer == ITSELF or peer in by_engine):
                yield _Pair(pod, by_engine.get(peer), record)


def _candidate(pod: EnginePod, pods: Sequence[EnginePod], pairs: Sequence[_Pair]) -> _Culprit | None:
    own = [pair for pair in pairs if pair.has(pod)]
    itself = [pair for pair in own if pair.prefill is None]
    failing = tuple(pair for pair in own if pair.keeps_failing)
    # What decode fails at by itself says nothing of its pairs, which can't be tried then.
    if not failing or not (any(pair.keeps_failing for pair in itself) or all(pair.keeps_failing for pair in own)):
        return None
    others = [other for other in pods if other.role is pod.role and other.uid != pod.uid]
    someone_works = any(pair.works and pair.has(other) and not pair.has(pod) for other in others for pair in pairs)
    return _Culprit(pod, failing) if someone_works else None


def _most(role: Role, pods: Sequence[EnginePod]) -> int:
    return max(1, int(sum(pod.role is role for pod in pods) * SHARE))


def _held(culprit: _Culprit, trial: Quarantined | None, now: datetime) -> Quarantined:
    restarts = trial.restarts if trial else 0
    pause = min(FIRST_PAUSE * 2**restarts, LONGEST_PAUSE)
    record = culprit.failing[0].record
    return Quarantined(
        pod=culprit.pod.name,
        role=str(culprit.pod.role),
        uid=culprit.pod.uid,
        reason=record.reason,
        message=record.detail,
        since=stamp(now),
        restarts=restarts,
        restart_at=stamp(now + pause) if restarts < MOST_RESTARTS else None,
    )


def _kept(entry: Quarantined, pod: EnginePod | None, working: Set[str], now: datetime) -> Quarantined | None:
    """What becomes of an entry, whatever conversations show now."""
    if pod is None or entry.uid == pod.uid:
        # Without a pod it is being made anew.
        return entry
    if entry.uid:
        return entry.model_copy(
            update={"uid": "", "restarts": entry.restarts + 1, "since": stamp(now), "restart_at": None}
        )
    is_old = now - datetime.fromisoformat(entry.since) >= REMEMBERED
    return None if is_old and pod.uid in working else entry
