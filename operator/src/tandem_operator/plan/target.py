# SPDX-License-Identifier: Apache-2.0
"""A decode engine to converse with: when the next conversation is due, and what one has brought."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tandem_connector.contract.types import EngineId, pod_of
from tandem_operator.plan.conversation import Course, Result, Results, Standing
from tandem_operator.plan.verification import ENOUGH_FAILURES, Fabric, PairRecord, Report

SOON_SECONDS: Final = 20.0
"""Between two conversations with an engine of which a pair hasn't shown anything, or has failed. Decode leaves a prefill engine that
failed alone for 10 s, and asks it again after that."""
AT_ONCE_SECONDS: Final = 2.0
"""Between two that somebody asked for, as long as nothing fails: in that time it is written down what the one before has shown."""
SOON_TRIES: Final = 24
"""Conversations in succession that come so soon. Which prefill engine is asked is decode's choice, as good as at random: with four,
24 leave out one of them once in a thousand times."""


@dataclass(frozen=True)
class Place:
    """Where an engine answers HTTP."""

    engine: EngineId
    """As peer tables name it."""
    host: str
    port: int


@dataclass(frozen=True)
class Target:
    """A decode engine, and what of it is known."""

    pod: str
    """Its pod's UID."""
    place: Place
    ranks: int
    """Its data-parallel ranks."""
    prefills: Mapping[str, Place]
    """The prefill engines that it is told to be ready, by their pods' UIDs."""
    model: str
    course: Course
    period: float
    """Seconds from one conversation to the next, when all is well."""
    settled: bool
    """Conversations have shown of all its pairs what they can."""
    pairs: Mapping[str, PairRecord]
    """What is known of its pairs: by the prefill engine, as peer tables name it; `""`: of it by itself."""
    fabrics: Mapping[str, Fabric]
    """Over what it and its prefill engines exchange, by their pods' UIDs, as far as they have said."""
    request: str = ""
    """The request to which it is still to answer, for which its next conversation is due at once; empty: none."""


def is_well(target: Target, last: Standing) -> bool:
    """Whether nothing is left to be shown of its pairs soon, after a conversation whose worst result is `last`."""
    return target.settled and last is not Standing.FAILED


def next_after(target: Target, tries: int, last: Standing = Standing.OPEN) -> float:
    """Seconds from the end of one conversation to the next one.

    Args:
        target: as it is known now, which may be without what the last conversation has shown.
        tries: how many have come soon after each other.
        last: the worst that the last one has shown of a pair.
    """
    soon = min(SOON_SECONDS, target.period)
    if target.request:
        return AT_ONCE_SECONDS if last is Standing.SHOWN else soon
    return target.period if is_well(target, last) or tries >= SOON_TRIES else soon


def report_of(target: Target, results: Results, fabrics: Mapping[str, Fabric]) -> Report:
    """What a conversation has brought, with the names that peer tables have.

    Engines name themselves otherwise than tables do; both begin with the pod's UID. Whoever isn't among the target's peers is
    left out: what an engine says is only believed of those that it was told of.
    """
    engines = {target.pod: target.place.engine, **{uid: place.engine for uid, place in target.prefills.items()}}
    named = {}
    for engine, result in results.items():
        uid = pod_of(EngineId(engine))
        if engine == "":
            named[""] = result
        elif uid in target.prefills:
            named[str(target.prefills[uid].engine)] = result
    return Report(engines=engines, decode=target.pod, results=named, fabrics=fabrics, request=target.request)


def is_news(target: Target, report: Report) -> bool:
    """Whether a report says anything that isn't known of the target."""
    if report.request or ("" in target.pairs and "" not in report.results):
        return True
    if any(target.fabrics.get(uid) != fabric for uid, fabric in report.fabrics.items()):
        return True
    return not all(_is_known(target.pairs.get(peer), result) for peer, result in report.results.items())


def _is_known(record: PairRecord | None, result: Result) -> bool:
    if record is None or (record.standing, record.reason) != (result.standing, result.reason):
        return False
    return result.standing is not Standing.FAILED or record.failures >= ENOUGH_FAILURES
