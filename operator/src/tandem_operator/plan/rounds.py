# SPDX-License-Identifier: Apache-2.0
"""A round of conversations that somebody asked for: which pairs it is about, and what came of each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tandem_connector.contract.types import EngineId, Role
from tandem_operator.plan.conversation import Standing
from tandem_operator.plan.pods import EnginePod
from tandem_operator.plan.proof import ITSELF, is_failing, ready_pairs
from tandem_operator.plan.verification import PairRecord


@dataclass(frozen=True)
class Tried:
    """A pair that a round is about."""

    decode: EnginePod
    prefill: EnginePod
    record: PairRecord | None
    """What conversations of the round have shown of it, or of decode by itself in its place; None: nothing yet."""

    @property
    def standing(self) -> Standing | None:
        """What came of it; None: it is still to answer. A failure that may pass has to repeat itself, as ever."""
        return self.record.standing if self.record and _is_answer(self.record) else None


def tried(pods: Sequence[EnginePod], request: str) -> tuple[Tried, ...]:
    """Every pair that is conversed with among `pods`, which are as the spec says, and what it has shown since a request."""
    return tuple(
        Tried(decode, prefill, _record_of(decode, prefill, request))
        for decode, prefills in conversing(pods)
        for prefill in prefills
    )


def conversing(pods: Sequence[EnginePod]) -> Iterator[tuple[EnginePod, tuple[EnginePod, ...]]]:
    """The decode engines among `pods` that have somebody to ask, and whom."""
    answering: dict[EngineId, EnginePod] = {
        pod.peer.engine: pod for pod in pods if pod.peer and pod.ready and not pod.terminating
    }
    for pod in pods:
        prefills = tuple(answering[engine] for engine in map(EngineId, ready_pairs(pod)) if engine in answering)
        if pod.role is Role.DECODE and pod.exchanges and pod.peer and pod.peer.engine in answering and prefills:
            yield pod, prefills


def has_answered(decode: EnginePod, prefills: Sequence[EnginePod], request: str) -> bool:
    """Whether a round needs no more conversations with this engine."""
    return all(Tried(decode, each, _record_of(decode, each, request)).standing for each in prefills)


def _record_of(decode: EnginePod, prefill: EnginePod, request: str) -> PairRecord | None:
    results = _results(decode, request)
    record, itself = results.get(prefill.peer.engine) if prefill.peer else None, results.get(ITSELF)
    if itself and _is_answer(itself) and not (record and _is_answer(record)):
        # As long as decode itself doesn't answer, its pairs can't be tried.
        return itself
    return record


def _results(decode: EnginePod, request: str) -> Mapping[str, PairRecord]:
    of_round = decode.record.round if decode.record else None
    return of_round.pairs if of_round and of_round.request == request else {}


def _is_answer(record: PairRecord) -> bool:
    return record.standing is not Standing.FAILED or is_failing(record)
