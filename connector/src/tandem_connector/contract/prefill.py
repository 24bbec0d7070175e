# SPDX-License-Identifier: Apache-2.0
"""What decode's connector tells prefill's with a prefill request, and what it is told back: `kv_transfer_params["tandem"]`.

A client may send `kv_transfer_params` as well, so P must know whose they are. D seals its note with HMAC-SHA-256, keyed
by the resource's secret, which every engine of the resource has and no client. The seal covers the whole note (both
incarnations, the tokens that D holds, the turn) and names the prompt, so that a note fits one prompt between two
processes. Whoever repeats a note that he saw gets what D asked for, again, and nothing else: P looks in D's cache for
blocks of that same prompt.

The alternative, that D announces over the authenticated side channel which request it is about to send, was not taken:
the announcement and the HTTP request race, one of them may be lost, and vLLM appends random characters to request ids, so
that P would have to wait for a message without knowing whether there is one.

A note that is malformed, forged or for another engine is not used, and the request is computed as any other; nobody's
request fails and no engine ends because of it.
"""

import hashlib
import hmac
from collections.abc import Container, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Self, TypeAlias

import msgspec
from msgspec import Meta

from tandem_connector.contract.types import BlockHash, EngineId

KEY: Final = "tandem"
"""The key in `kv_transfer_params` of requests and responses."""
VERSION: Final = 1
MAX_TURN: Final = 256
"""Longest name of a turn, in characters."""
MIN_SECRET: Final = 16
"""Shortest secret, in bytes."""

_Engine: TypeAlias = Annotated[EngineId, Meta(min_length=1, max_length=256)]
_Tokens: TypeAlias = Annotated[int, Meta(ge=0, lt=(1 << 40))]


class NoteProblem(StrEnum):
    """Why a note is not used; a metric's label."""

    MALFORMED = "malformed"
    """It has not the form of a note."""
    VERSION = "version"
    """It is of another version of Tandem."""
    FORGED = "forged"
    """Its seal doesn't fit: it is not from an engine of this resource, or not for this prompt."""
    MISADDRESSED = "misaddressed"
    """It is for another incarnation."""
    STRANGER = "stranger"
    """Its sender is an engine of the resource, but not a peer of this one now."""


@dataclass(frozen=True, slots=True)
class PromptName:
    """What both engines call the prompt."""

    tokens: int
    last: BlockHash
    """Hash of its last full block, which depends on all tokens before, LoRA and cache salt included."""


class PrefillNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What D says of the turn that it asks a prefill for."""

    version: Annotated[int, Meta(ge=0, le=65_535)]
    decode: _Engine
    """The engine that asks, and that will want the blocks."""
    prefill: _Engine
    """The engine that is asked."""
    held_tokens: _Tokens
    """How many of the prompt's first tokens D holds: nothing beyond them is to be had from it."""
    turn: Annotated[str, Meta(min_length=1, max_length=MAX_TURN)]
    """D's name of the turn, for logs and traces of both engines."""
    seal: Annotated[str, Meta(min_length=64, max_length=64)] = "0" * 64


class PrefillReceipt(msgspec.Struct, frozen=True):
    """P's account of the prefill, in the response's `kv_transfer_params`."""

    version: Annotated[int, Meta(ge=0, le=65_535)]
    prefill: _Engine
    computed_tokens: _Tokens
    """Prompt tokens that P computed."""
    cached_tokens: _Tokens
    """Those that it had."""
    fetched_tokens: _Tokens
    """Those that it got from D for this request."""


class Seal:
    """Makes and checks the seals of one resource.

    Args:
        secret: what seals are made with.
        others: by which they may be made, too.

    Raises:
        ValueError: a secret is shorter than `MIN_SECRET` bytes.
    """

    def __init__(self, secret: bytes, *others: bytes) -> None:
        if (length := min(map(len, (secret, *others)))) < MIN_SECRET:
            raise ValueError(f"a secret of {length} bytes; give at least {MIN_SECRET}")
        # A key of its own, so that the secret, which is also used elsewhere, is not an HMAC key twice.
        self._keys = [hmac.digest(each, b"tandem prefill note", hashlib.sha256) for each in (secret, *others)]

    @classmethod
    def without_keys(cls) -> Self:
        """For engines that have no keys and therefore speak over loopback only: it shows nothing but that a note is whole."""
        return cls(b"engines without keys")

    def on(self, note: PrefillNote, prompt: PromptName) -> PrefillNote:
        """The note with its seal for this prompt."""
        return msgspec.structs.replace(note, seal=_sealed(self._keys[0], note, prompt))

    def fits(self, note: PrefillNote, prompt: PromptName) -> bool:
        """Whether the note was sealed by an engine of the resource, for this prompt."""
        seal = note.seal.encode()
        return any(hmac.compare_digest(seal, _sealed(key, note, prompt).encode()) for key in self._keys)


def _sealed(key: bytes, note: PrefillNote, prompt: PromptName) -> str:
    sealed = (note.version, note.decode, note.prefill, note.held_tokens, note.turn, prompt.tokens, prompt.last)
    return hmac.new(key, msgspec.msgpack.encode(sealed), hashlib.sha256).hexdigest()


def note_params(note: PrefillNote) -> dict[str, object]:
    """The note as a request's `kv_transfer_params`."""
    return {KEY: msgspec.to_builtins(note)}


def receipt_params(receipt: PrefillReceipt) -> dict[str, object]:
    """The receipt as a response's `kv_transfer_params`."""
    return {KEY: msgspec.to_builtins(receipt)}


def read_note(
    params: object, seal: Seal, prompt: PromptName, me: EngineId, peers: Container[EngineId]
) -> PrefillNote | NoteProblem | None:
    """The note in a request's `kv_transfer_params`, whatever these are; None if there is none.

    Args:
        params: what came with the request, from whomever.
        seal: the resource's.
        prompt: the request's, as this engine hashed it.
        me: this incarnation.
        peers: the engines that this one is connected to.
    """
    content = _content(params)
    if content is None:
        return None
    if not isinstance(content, Mapping) or not isinstance(content.get("version"), int):
        return NoteProblem.MALFORMED
    if content["version"] != VERSION:
        return NoteProblem.VERSION
    try:
        note = msgspec.convert(content, PrefillNote)
    except msgspec.ValidationError:
        return NoteProblem.MALFORMED
    return _problem(note, seal, prompt, me, peers) or note


def _problem(
    note: PrefillNote, seal: Seal, prompt: PromptName, me: EngineId, peers: Container[EngineId]
) -> NoteProblem | None:
    if not seal.fits(note, prompt):
        return NoteProblem.FORGED
    if note.held_tokens > prompt.tokens:
        return NoteProblem.MALFORMED
    if note.prefill != me:
        return NoteProblem.MISADDRESSED
    return None if note.decode in peers else NoteProblem.STRANGER


def read_receipt(params: object) -> PrefillReceipt | None:
    """The receipt in a response's `kv_transfer_params`, whatever these are; None if there is none that is understood."""
    content = _content(params)
    if content is None:
        return None
    try:
        receipt = msgspec.convert(content, PrefillReceipt)
    except msgspec.ValidationError:
        return None
    return receipt if receipt.version == VERSION else None


def _content(params: object) -> object:
    return params.get(KEY) if isinstance(params, Mapping) else None
