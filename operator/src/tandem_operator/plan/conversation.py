# SPDX-License-Identifier: Apache-2.0
"""The conversation by which a pair shows that KV moves: what is asked, and what the answers say.

Two turns with decode, each with so many new tokens that decode asks prefill for them, and then the second prompt once more, of
the prefill engine that took part in it, under another cache salt: it computes all of it itself. So each answer of decode
is made from KV that prefill wrote, the second one also from what decode has written into prefill (which computes that turn on
top of it), and the last answer from no KV that was ever moved.

The prompt repeats a short pattern, which language models go on with sure of themselves, and only if they see what was before.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tandem_operator.api.status import Reason

TIE: Final = 0.5
"""In nats. Where prefill's two likeliest tokens are nearer to each other than this, a batch of another shape may choose the other
one: rounding in 16 bits moves logits by some tenths. From there on answers may differ, and are not compared."""
LAST_ANSWER: Final = 16
USUAL_BLOCK: Final = 128
"""Tokens per KV block where the resource leaves it to vLLM, which takes 16 to 128: a multiple of all of these."""
_PATTERN: Final = 16
_IDS: Final = range(300, 500)
"""Token ids that every vocabulary has, and that are neither control tokens nor single bytes."""
_ITSELF: Final = ""

_NOT_ASKED: Final = frozenset({"few_missing", "cached", "draining"})
"""`local` of an account where decode had no reason, or no right, to ask."""


@dataclass(frozen=True)
class Course:
    """How long the parts of a conversation are, in tokens."""

    first: int
    """The first prompt: whole blocks and one token, as decode computes the last one."""
    answer: int
    """Of decode to it: fills whole blocks."""
    more: int
    """What the second prompt adds to that."""
    block: int
    """Tokens of the largest block that engines may have."""
    pushes: bool
    """Whether decode writes what it computes into prefill by itself."""

    @classmethod
    def of(cls, above_tokens: int, block: int | None, *, pushes: bool) -> "Course":
        """Of engines that ask for more than so many tokens, with blocks of this size (None: vLLM's choice)."""
        size = block or USUAL_BLOCK
        asked = -(-(above_tokens + 1) // size) * size
        return cls(first=asked + 1, answer=size, more=asked, block=size, pushes=pushes)


def prompt(seed: str, tokens: int) -> tuple[int, ...]:
    """So many token ids, a pattern of the seed again and again."""
    pattern = [_IDS[byte % len(_IDS)] for byte in hashlib.sha256(seed.encode()).digest()[:_PATTERN]]
    return tuple(pattern[index % _PATTERN] for index in range(tokens))


def request(model: str, tokens: Sequence[int], *, salt: str, answer: int) -> dict[str, Any]:
    """The body of `POST /v1/completions` for a greedy answer of exactly so many tokens."""
    return {
        "model": model,
        "prompt": list(tokens),
        "max_tokens": answer,
        "min_tokens": answer,
        "temperature": 0.0,
        "ignore_eos": True,
        "logprobs": 2,
        "return_tokens_as_token_ids": True,
        "cache_salt": salt,
    }


class Account(BaseModel):
    """What of decode's account of a turn matters here (`TurnAccount` of the connector)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    computed: int = Field(ge=0)
    received: Mapping[str, int] = {}
    computed_by_prefill: int | None = Field(default=None, ge=0)
    asked: tuple[str, ...] = Field(default=(), max_length=64)
    local: str = Field(default="", max_length=64)


@dataclass(frozen=True)
class Answer:
    """An engine's answer."""

    tokens: tuple[int, ...]
    margins: tuple[float, ...]
    """For each: by how much the likeliest token is likelier than the next one, in nats."""
    account: Account | None
    """None: of an engine without the connector, or of a prefill engine."""


class Fault(StrEnum):
    """Why there is no answer."""

    UNREACHABLE = "unreachable"
    """No connection, no HTTP, an error of the server's, or nothing that can be read."""
    TIMEOUT = "timeout"
    KEY = "key"
    """HTTP 401 or 403."""
    REFUSED = "refused"
    """Another 4xx."""


@dataclass(frozen=True)
class Failed:
    """There is no answer."""

    fault: Fault
    detail: str


class Standing(StrEnum):
    """What a conversation says of a pair."""

    SHOWN = "shown"
    FAILED = "failed"
    OPEN = "open"
    """Neither."""


@dataclass(frozen=True)
class Result:
    """What one conversation says of one pair, or of decode by itself."""

    standing: Standing
    reason: Reason
    detail: str = ""


Results = Mapping[str, Result]
"""By the prefill engine's id, as decode knows it; `""`: of decode by itself."""


def read_answer(content: object) -> Answer | None:
    """The answer in a response's JSON, whatever that is; None if there is none."""
    try:
        return _Response.model_validate(content).answer()
    except (ValidationError, ValueError):
        return None


def goes_on(first: Answer | Failed) -> bool:
    """Whether the conversation is worth its second turn."""
    return isinstance(first, Answer) and first.account is not None and not first.account.local


def judge(
    course: Course,
    first: Answer | Failed,
    second: Answer | Failed | None = None,
    alone: Answer | Failed | None = None,
    *,
    refuses_peers: bool = False,
) -> Results:
    """What a conversation says.

    Args:
        course: its sizes.
        first: decode's answer to the first prompt.
        second: and to the second one; None if it wasn't asked.
        alone: the prefill engine's own answer to the second prompt; None if it wasn't asked.
        refuses_peers: whether decode says that it can't speak with some of its peers.
    """
    results = _turn(course, first, refuses_peers=refuses_peers)
    if second is None or not isinstance(first, Answer):
        return results
    # What failed in either turn has failed.
    results = {**results, **_turn(course, second, refuses_peers=refuses_peers), **_failed(results)}
    if isinstance(second, Failed) or second.account is None or _ITSELF in results or not second.account.asked:
        return results
    prefill = second.account.asked[-1]
    if results[prefill].standing is not Standing.SHOWN:
        return results
    return {**results, prefill: _back(course, first, second) or _output(second, alone) or results[prefill]}


def _turn(course: Course, turn: Answer | Failed, *, refuses_peers: bool) -> dict[str, Result]:
    if isinstance(turn, Failed):
        return {_ITSELF: _no_answer(turn, "decode")}
    account = turn.account
    if account is None:
        why = "its answer has no account of the turn: it doesn't run Tandem's connector, or another version of it"
        return {_ITSELF: Result(Standing.FAILED, Reason.NOTHING_MOVED, why)}
    passed_over = {
        engine: Result(Standing.FAILED, Reason.NOTHING_MOVED, "it was asked, and failed, so that another one was")
        for engine in account.asked[:-1]
    }
    return {**passed_over, **_last(course, account, refuses_peers=refuses_peers)}


def _last(course: Course, account: Account, *, refuses_peers: bool) -> dict[str, Result]:
    """Of the engine that was asked last, or of decode by itself."""
    if account.local:
        return _local(account, refuses_peers=refuses_peers)
    if not account.asked:
        return {_ITSELF: Result(Standing.OPEN, Reason.INCONCLUSIVE, "decode doesn't say whom it asked")}
    if account.computed > course.block:
        why = f"decode computed {account.computed} tokens of a prompt whose blocks were to come from prefill"
        return {account.asked[-1]: Result(Standing.FAILED, Reason.NOTHING_MOVED, why)}
    return {account.asked[-1]: Result(Standing.SHOWN, Reason.VERIFIED)}


def _local(account: Account, *, refuses_peers: bool) -> dict[str, Result]:
    """Decode says why prefill didn't do it."""
    asked, why = account.asked[-1] if account.asked else _ITSELF, account.local
    if why == "no_peer" and refuses_peers:
        detail = (
            "it refuses its peers: see `peer_refused` in its log, and run one image and one configuration in both roles"
        )
        return {_ITSELF: Result(Standing.FAILED, Reason.VERSION_MISMATCH, detail)}
    if why == "no_peer":
        detail = (
            "it can reach none of the prefill engines in its peer table: see its log, and NetworkPolicies for port 5601"
        )
        return {_ITSELF: Result(Standing.FAILED, Reason.NO_PEER, detail)}
    detail = f"decode computed the prompt itself: {why}"
    if why in _NOT_ASKED or not account.asked:
        return {_ITSELF: Result(Standing.OPEN, Reason.INCONCLUSIVE, detail)}
    return {asked: Result(Standing.FAILED, Reason.TIMEOUT if why == "too_late" else Reason.NOTHING_MOVED, detail)}


def _failed(results: Results) -> dict[str, Result]:
    return {engine: result for engine, result in results.items() if result.standing is Standing.FAILED}


def _back(course: Course, first: Answer, second: Answer) -> Result | None:
    """What prefill had to compute of the second prompt, if that shows that nothing came from decode."""
    if not course.pushes or first.account is None or second.account is None:
        return None
    computed = second.account.computed_by_prefill
    if computed is None or first.account.asked[-1:] != second.account.asked[-1:]:
        return None
    if computed <= course.more + 1 + course.block // 2:
        return None
    why = f"prefill computed {computed} tokens of a turn that added {course.more + 1}: decode's blocks did not come back to it"
    return Result(Standing.FAILED, Reason.NOTHING_MOVED_BACK, why)


def _output(second: Answer, alone: Answer | Failed | None) -> Result | None:
    """Whether the answers differ where they must not; None if they are equal."""
    match alone:
        case None:
            return Result(Standing.OPEN, Reason.INCONCLUSIVE, "prefill's own answer wasn't asked for")
        case Failed() as failed:
            return replace(_no_answer(failed, "prefill"), standing=Standing.OPEN)
    for index, (ours, theirs, margin) in enumerate(zip(second.tokens, alone.tokens, alone.margins, strict=False)):
        if ours == theirs:
            continue
        if margin >= TIE:
            why = f"token {index + 1} of the answer is {ours}, and {theirs} when prefill computes all of the prompt itself"
            return Result(Standing.FAILED, Reason.WRONG_OUTPUT, why)
        if index == 0:
            return Result(
                Standing.OPEN, Reason.INCONCLUSIVE, "the model is not sure enough of its answer to compare it"
            )
        return None
    return None


def _no_answer(failed: Failed, who: str) -> Result:
    match failed.fault:
        case Fault.KEY:
            return Result(Standing.OPEN, Reason.KEY_REQUIRED, f"{who} asks for an API key")
        case Fault.REFUSED:
            return Result(Standing.OPEN, Reason.CONVERSATION_REFUSED, f"{who}: {failed.detail}")
        case Fault.TIMEOUT:
            return Result(Standing.FAILED, Reason.TIMEOUT, f"{who}: {failed.detail}")
        case Fault.UNREACHABLE:
            return Result(Standing.FAILED, Reason.ENGINE_UNREACHABLE, f"{who}: {failed.detail}")


class _Lenient(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Logprobs(_Lenient):
    tokens: tuple[str, ...]
    top_logprobs: tuple[dict[str, float] | None, ...]


class _Choice(_Lenient):
    logprobs: _Logprobs


class _Params(_Lenient):
    tandem: Account | None = None


class _Response(_Lenient):
    choices: tuple[_Choice]
    kv_transfer_params: _Params | None = None

    def answer(self) -> Answer:
        logprobs = self.choices[0].logprobs
        return Answer(
            tokens=tuple(int(token.removeprefix("token_id:")) for token in logprobs.tokens),
            margins=tuple(_margin(likeliest or {}) for likeliest in logprobs.top_logprobs),
            account=self.kv_transfer_params.tandem if self.kv_transfer_params else None,
        )


def _margin(likeliest: Mapping[str, float]) -> float:
    first, second, *_ = (*sorted(likeliest.values(), reverse=True), 0.0, 0.0)
    return first - second if len(likeliest) > 1 else 0.0
