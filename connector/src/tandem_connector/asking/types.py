# SPDX-License-Identifier: Apache-2.0
"""The terms of asking for prefills."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from tandem_connector.contract.prefill import PrefillReceipt, PromptName
from tandem_connector.exchange.types import BlockHash, RequestId

CallId = NewType("CallId", int)
"""Names one HTTP request to one P."""
PrefillId = NewType("PrefillId", int)
"""Names one prefill that is asked for, by whatever calls, on behalf of one or more requests."""


class Obstacle(StrEnum):
    """What P can't compute from token ids alone, or what D needs to compute itself."""

    MULTIMODAL = "multimodal"
    PROMPT_EMBEDDINGS = "prompt_embeddings"
    PROMPT_LOGPROBS = "prompt_logprobs"
    """D needs the logits of each prompt position."""
    POOLING = "pooling"
    SKIPS_CACHE = "skips_cache"
    """The request asks not to read the prefix cache."""
    GROWING_PROMPT = "growing_prompt"
    """The prompt comes in parts."""


class LocalReason(StrEnum):
    """Why D computes a prompt itself, if not for an `Obstacle`."""

    CACHED = "cached"
    """No full block is missing."""
    FEW_MISSING = "few_missing"
    """No more tokens are missing than `above_tokens`."""
    NO_PEER = "no_peer"
    """There is no P that could be asked."""
    ALL_FAILED = "all_failed"
    """Every P that could be asked failed, or as many as may be asked."""
    REJECTED = "rejected"
    """A P said that the request is wrong; the others would say the same."""
    TOO_LATE = "too_late"
    """The prefill's time is over."""
    DRAINING = "draining"
    """D is to end, and asks nobody for anything new."""


class Failure(StrEnum):
    """How asking one P ended, if not by an answer."""

    REFUSED = "refused"
    """No connection."""
    TIMEOUT = "timeout"
    """Connected or not, nothing came in time."""
    CLOSED = "closed"
    """The connection ended before the answer did."""
    SERVER_ERROR = "server_error"
    """HTTP 5xx, or a prefill that P broke off."""
    BUSY = "busy"
    """HTTP 408 or 429."""
    UNKNOWN_MODEL = "unknown_model"
    """HTTP 404: this P doesn't have the LoRA adapter, or not yet."""
    REJECTED = "rejected"
    """Another HTTP 4xx."""
    GARBAGE = "garbage"
    """What came is no answer to a prefill request."""
    OTHER_ENGINE = "other_engine"
    """Another incarnation answered."""
    SLOW = "slow"
    """No progress for too long."""
    UNSERVED = "unserved"
    """P answers the side channel, but says that nobody computes the blocks."""
    PEER_LOST = "peer_lost"
    """P is silent, or gone."""

    @property
    def is_final(self) -> bool:
        """Whether no other P would do better."""
        return self is Failure.REJECTED

    @property
    def lets_rest(self) -> bool:
        """Whether the P had better not be asked by other requests for some time."""
        return self not in {Failure.BUSY, Failure.UNKNOWN_MODEL, Failure.REJECTED, Failure.PEER_LOST}

    @property
    def may_be_the_adapters(self) -> bool:
        """Whether it may be of requests with the same LoRA adapter only.

        An adapter that P loaded from elsewhere makes other names: P computes these blocks, and nobody those that are wanted.
        """
        return self is Failure.UNSERVED

    @property
    def is_servers(self) -> bool:
        """Whether it is likely to be the HTTP server's, which data-parallel ranks of a pod have in common."""
        return self in {
            Failure.REFUSED,
            Failure.TIMEOUT,
            Failure.CLOSED,
            Failure.SERVER_ERROR,
            Failure.GARBAGE,
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """P has computed the prompt."""

    receipt: PrefillReceipt | None
    """Its account, if it gave one."""


@dataclass(frozen=True, slots=True)
class CallFailed:
    """P has not."""

    failure: Failure
    detail: str
    """For the log."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that reached D, with what P needs to know of it."""

    request: RequestId
    prompt: list[int]
    """Token ids. Not copied: the caller doesn't change them."""
    hashes: tuple[BlockHash, ...]
    """Of the prompt's full blocks, without those that output adds later."""
    obstacles: frozenset[Obstacle] = frozenset()
    lora: str | None = None
    """Name of the LoRA adapter."""
    salt: str | None = None
    """Cache salt."""
    priority: int = 0
    trace: Mapping[str, str] = field(default_factory=dict)
    """W3C trace context: `traceparent` and `tracestate`."""

    @property
    def name(self) -> PromptName:
        """What both engines call the prompt. It has at least one full block."""
        return PromptName(len(self.prompt), self.hashes[-1])
