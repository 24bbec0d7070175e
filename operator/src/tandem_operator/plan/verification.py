# SPDX-License-Identifier: Apache-2.0
"""What is known of an engine and its pairs, kept in an annotation of its pod so that the next operator knows it too."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tandem_connector.contract.types import EngineId
from tandem_operator.api.status import Reason
from tandem_operator.plan.conversation import Results, Standing

ENOUGH_FAILURES: Final = 3
"""In succession. Further ones of the same kind say nothing new."""
_MOST_FAILURES: Final = 1000
_MOST_PAIRS: Final = 256


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Fabric(_Kept):
    """Over what an engine says that it exchanges (`Fabric` of the connector)."""

    backend: str = Field(max_length=64)
    provider: str = Field(max_length=64)
    devices: int = Field(ge=0, le=1000)


class PairRecord(_Kept):
    """What conversations have shown of one pair, or of decode by itself."""

    standing: Standing
    reason: Reason
    failures: int = Field(default=0, ge=0, le=_MOST_FAILURES)
    """How many in succession have failed."""
    detail: str = Field(default="", max_length=300)


class Round(_Kept):
    """What conversations have shown that somebody asked for."""

    request: str = Field(min_length=1, max_length=64)
    """Who asked, by the annotation on the resource."""
    pairs: Mapping[str, PairRecord] = Field(default={}, max_length=_MOST_PAIRS)
    """As of a `Record`, since that request alone."""


class Record(_Kept):
    """Of one engine pod, while one process runs in it."""

    engine: EngineId
    """That process, as peer tables name it."""
    fabric: Fabric | None = None
    pairs: Mapping[str, PairRecord] = Field(default={}, max_length=_MOST_PAIRS)
    """Of a decode engine: by the prefill engine, as peer tables name it; `""`: of it by itself."""
    round: Round | None = None
    """Of the newest request that it has answered any of."""

    @classmethod
    def read(cls, annotation: str | None, engine: EngineId | None) -> Self | None:
        """What an annotation says of this process; None where it says nothing, or nothing that can be read."""
        try:
            record = cls.model_validate_json(annotation or "")
        except ValidationError:
            return None
        return record if record.engine == engine else None

    def to_annotation(self) -> str:
        """As it is written: the same bytes for the same content."""
        ordered = self.model_copy(
            update={
                "pairs": dict(sorted(self.pairs.items())),
                "round": self.round and self.round.model_copy(update={"pairs": dict(sorted(self.round.pairs.items()))}),
            }
        )
        return ordered.model_dump_json(exclude_none=True)


@dataclass(frozen=True)
class Report:
    """What one conversation has brought."""

    engines: Mapping[str, EngineId]
    """The engines that took part, decode first: by their pods' UIDs, as peer tables named them then."""
    decode: str
    """UID of decode's pod."""
    results: Results
    """By the engine as peer tables name it; `""`: of decode by itself."""
    fabrics: Mapping[str, Fabric]
    """By pod, of those that said it."""
    request: str = ""
    """For whom it was held; empty: it was its time."""


def updated(
    record: Record | None,
    uid: str,
    engine: EngineId,
    listed: Iterable[str],
    reports: Iterable[Report],
    *,
    request: str = "",
) -> Record | None:
    """The record of one engine after these reports, in their order; None as long as nothing is known.

    Args:
        record: before.
        uid: of its pod.
        engine: its process now. What a report says of another one is of no interest.
        listed: its peers, as its table names them. Of others nothing is kept.
        reports: of the resource.
        request: the one that waits for an answer, if one does. What was asked for by another is as good as unasked.
    """
    fabric, pairs, of_round = (record.fabric, record.pairs, record.round) if record else (None, {}, None)
    for report in reports:
        if report.engines.get(uid) != engine:
            continue
        fabric = report.fabrics.get(uid, fabric)
        if report.decode == uid:
            pairs = _after(pairs, report.results)
            if request and report.request == request:
                before = of_round.pairs if of_round and of_round.request == request else {}
                of_round = Round(request=request, pairs=_after(before, report.results))
    known = {"", *listed}
    kept = {peer: pair for peer, pair in pairs.items() if peer in known}
    if of_round:
        of_round = Round(
            request=of_round.request, pairs={peer: pair for peer, pair in of_round.pairs.items() if peer in known}
        )
    return Record(engine=engine, fabric=fabric, pairs=kept, round=of_round) if fabric or kept else None


def _after(before: Mapping[str, PairRecord], results: Results) -> dict[str, PairRecord]:
    after = dict(before)
    for peer, result in results.items():
        last = before.get(peer)
        if result.standing is Standing.OPEN and last is not None and last.standing is not Standing.OPEN:
            # What says nothing changes nothing.
            continue
        failures = 0
        if result.standing is Standing.FAILED:
            failures = min((last.failures if last else 0) + 1, _MOST_FAILURES)
        after[peer] = PairRecord(
            standing=result.standing, reason=result.reason, failures=failures, detail=result.detail[:300]
        )
    if "" not in results:
        after.pop("", None)
    return after
