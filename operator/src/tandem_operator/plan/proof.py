# SPDX-License-Identifier: Apache-2.0
"""Whether it was shown that KV moves: the condition `KVTransferVerified`, and the same of one revision for roll-outs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain
from typing import Final

from tandem_connector.contract.types import EngineState, Role
from tandem_operator.api.status import Reason
from tandem_operator.plan.conversation import Standing
from tandem_operator.plan.fabric import fabric_complaints
from tandem_operator.plan.finding import Finding
from tandem_operator.plan.pods import EnginePod
from tandem_operator.plan.resolved import NixlTransfer, Resolved
from tandem_operator.plan.verification import PairRecord

ITSELF: Final = ""
_BELIEVED_AFTER: Final = {
    Reason.NO_PEER: 2,
    Reason.NOTHING_MOVED: 2,
    Reason.NOTHING_MOVED_BACK: 3,
    Reason.TIMEOUT: 2,
    Reason.ENGINE_UNREACHABLE: 2,
}
"""Failures in succession before a pair counts as failing; for other reasons one. A table that an engine hasn't read yet, a crowd of
requests, a pod that is about to end: all of these pass."""
_WORST_FIRST: Final = (
    Reason.WRONG_OUTPUT,
    Reason.VERSION_MISMATCH,
    Reason.NOTHING_MOVED,
    Reason.NOTHING_MOVED_BACK,
    Reason.NO_PEER,
    Reason.TIMEOUT,
    Reason.ENGINE_UNREACHABLE,
)


class Proof(Enum):
    """What is known of a revision."""

    SHOWN = auto()
    """Each of its decode engines that is ready has a pair in which KV was seen to move, and no pair fails."""
    FAILING = auto()
    """A pair fails."""
    OPEN = auto()
    """Not all has been tried yet."""
    UNKNOWABLE = auto()
    """Verification is off, or the engines can't be conversed with: who waits for a proof waits for ever."""


@dataclass(frozen=True)
class Failing:
    """A pair, or decode by itself, that fails."""

    decode: EnginePod
    prefill: EnginePod | None
    record: PairRecord

    @property
    def message(self) -> str:
        """Who, and why."""
        whom = f" with {self.prefill.name}" if self.prefill else ""
        return f"{self.decode.name}{whom}: {self.record.detail}"


def is_failing(record: PairRecord) -> bool:
    """Whether a pair's failures are believed."""
    return record.standing is Standing.FAILED and record.failures >= _BELIEVED_AFTER.get(record.reason, 1)


def proof_of(resolved: Resolved, pods: Sequence[EnginePod]) -> Proof:
    """What is known of the engines in `pods`, which are all of one revision and of both roles."""
    if resolved.verifying is None or isinstance(resolved.transfer, NixlTransfer):
        return Proof.UNKNOWABLE
    if next(failing_pairs(pods), None) or next(fabric_complaints(resolved, pods), None):
        return Proof.FAILING
    decodes = [pod for pod in pods if pod.role is Role.DECODE and pod.ready and not pod.terminating]
    if any(_closed(pod) for pod in decodes):
        return Proof.UNKNOWABLE
    return Proof.SHOWN if decodes and all(_has_shown(pod) for pod in decodes) else Proof.OPEN


def why_not_shown(resolved: Resolved, pods: Sequence[EnginePod]) -> str:
    """Why the engines in `pods`, which are all of one revision, haven't shown that KV moves, as far as that is known."""
    complaints = (complaint.message for complaint in fabric_complaints(resolved, pods))
    return next(chain((each.message for each in failing_pairs(pods)), complaints), "not all of them have been tried")


def kv_transfer_verified(resolved: Resolved, pods: Sequence[EnginePod]) -> Finding:
    """The condition, of these engines of the present revision."""
    if isinstance(resolved.transfer, NixlTransfer):
        return Finding(
            None,
            Reason.NOT_WITH_NIXL_PULL,
            "engines with NixlPull don't say what moved; look at their metrics vllm:nixl_*",
        )
    if resolved.verifying is None:
        return Finding(None, Reason.VERIFICATION_OFF, "nothing is tried: spec.verification.enabled is false")
    shown, possible = _counts(pods)
    counts = f"{shown} of {possible} pairs have shown that KV moves both ways and answers are right"
    failing = sorted(failing_pairs(pods), key=lambda each: (_WORST_FIRST.index(each.record.reason), each.message))
    if failing:
        more = f"; and {len(failing) - 1} more" if len(failing) > 1 else ""
        return Finding(False, failing[0].record.reason, f"{failing[0].message}{more}; {counts}")
    if complaint := next(fabric_complaints(resolved, pods), None):
        return Finding(False, complaint.reason, complaint.message)
    if shown:
        return Finding(True, Reason.VERIFIED, counts)
    return _nothing_shown(pods, counts if possible else "no pair of engines is ready")


def _nothing_shown(pods: Sequence[EnginePod], yet: str) -> Finding:
    closed = next(filter(None, map(_closed, pods)), None)
    if closed is None:
        return Finding(None, Reason.NOT_VERIFIED_YET, yet)
    remedy = ""
    if closed.reason is Reason.KEY_REQUIRED:
        remedy = "; the operator reads no keys, so watch tandem_bytes_received_total, or set spec.verification.enabled to false"
    return Finding(None, closed.reason, closed.detail + remedy)


def failing_pairs(pods: Sequence[EnginePod]) -> Iterator[Failing]:
    """Those that fail, of pairs of which both engines run."""
    by_engine: dict[str, EnginePod] = {pod.peer.engine: pod for pod in pods if pod.peer}
    for pod in pods:
        for peer, record in pod.record.pairs.items() if pod.record else ():
            if is_failing(record) and (peer == ITSELF or peer in by_engine):
                yield Failing(pod, by_engine.get(peer), record)


def ready_pairs(decode: EnginePod) -> tuple[str, ...]:
    """The prefill engines that a decode engine is told to be ready."""
    peers = decode.table.peers if decode.table and decode.ready and not decode.terminating else ()
    return tuple(peer.engine for peer in peers if peer.role is Role.PREFILL and peer.state is EngineState.READY)


def _counts(pods: Sequence[EnginePod]) -> tuple[int, int]:
    """Pairs that have shown that KV moves, and all that could."""
    pairs = [(pod, peer) for pod in pods if pod.role is Role.DECODE for peer in ready_pairs(pod)]
    return sum(_standing(pod, peer) is Standing.SHOWN for pod, peer in pairs), len(pairs)


def _has_shown(decode: EnginePod) -> bool:
    return any(_standing(decode, peer) is Standing.SHOWN for peer in ready_pairs(decode))


def _standing(decode: EnginePod, peer: str) -> Standing | None:
    record = decode.record.pairs.get(peer) if decode.record else None
    return record.standing if record else None


def _closed(pod: EnginePod) -> PairRecord | None:
    """Why an engine can't be conversed with, for as long as it is configured as it is."""
    for record in pod.record.pairs.values() if pod.record else ():
        if record.standing is Standing.OPEN:
            return record
    return None
