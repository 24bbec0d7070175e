# SPDX-License-Identifier: Apache-2.0
"""What P believes of a prefill request's `kv_transfer_params`."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_connector.contract.prefill import (
    KEY,
    VERSION,
    NoteProblem,
    PrefillNote,
    PrefillReceipt,
    PromptName,
    Seal,
    note_params,
    read_note,
    read_receipt,
    receipt_params,
)
from tandem_connector.exchange.types import BlockHash, EngineId

D, P = EngineId("d-1"), EngineId("p-1")
SEAL = Seal(b"a secret of the resource")
PROMPT = PromptName(1_000, BlockHash(b"last-block"))
NOTE = SEAL.on(PrefillNote(VERSION, D, P, 160, "turn"), PROMPT)
RECEIPT = PrefillReceipt(VERSION, P, 840, 100, 60)

junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def read(params: object, *, seal: Seal = SEAL, prompt: PromptName = PROMPT, me: EngineId = P) -> object:
    return read_note(params, seal, prompt, me, {D})


def changed(**fields: object) -> dict[str, object]:
    return {KEY: msgspec.to_builtins(NOTE) | fields}


def test_a_note_is_read_as_it_was_sent() -> None:
    assert read(msgspec.json.decode(msgspec.json.encode(note_params(NOTE)))) == NOTE


@pytest.mark.parametrize("params", [None, {}, "text", 7, [KEY], {"do_remote_prefill": True, "remote_host": "evil"}])
def test_params_without_a_note_are_no_note(params: object) -> None:
    assert read(params) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("decode", "d-2"),
        ("prefill", "p-2"),
        ("held_tokens", 161),
        ("turn", "another"),
        ("seal", "0" * 64),
        ("seal", "\N{LATIN SMALL LETTER E WITH ACUTE}" * 64),
    ],
)
def test_a_note_with_anything_changed_is_forged(field: str, value: object) -> None:
    assert read(changed(**{field: value})) is NoteProblem.FORGED


def test_a_note_of_another_resource_is_forged() -> None:
    assert read(note_params(NOTE), seal=Seal(b"the secret of another")) is NoteProblem.FORGED
    assert read(note_params(NOTE), seal=Seal.without_keys()) is NoteProblem.FORGED


def test_a_seal_by_a_key_that_is_being_replaced_fits_as_long_as_that_is_known() -> None:
    before, after = b"a secret of the resource", b"the secret that follows it"
    sealed = {secret: note_params(Seal(secret).on(NOTE, PROMPT)) for secret in (before, after)}
    for both in (Seal(before, after), Seal(after, before)):
        assert [isinstance(read(params, seal=both), PrefillNote) for params in sealed.values()] == [True, True]
    assert Seal(before, after).on(NOTE, PROMPT) == Seal(before).on(NOTE, PROMPT)
    assert read(sealed[before], seal=Seal(after)) is NoteProblem.FORGED


@pytest.mark.parametrize("prompt", [PromptName(1_001, PROMPT.last), PromptName(1_000, BlockHash(b"other-block"))])
def test_a_note_of_another_prompt_is_forged(prompt: PromptName) -> None:
    assert read(note_params(NOTE), prompt=prompt) is NoteProblem.FORGED


def test_a_note_for_the_process_before_this_one_is_misaddressed() -> None:
    assert read(note_params(NOTE), me=EngineId("p-2")) is NoteProblem.MISADDRESSED


def test_a_note_of_an_engine_that_is_no_peer_is_a_strangers() -> None:
    assert read_note(note_params(NOTE), SEAL, PROMPT, P, set()) is NoteProblem.STRANGER


@pytest.mark.parametrize("version", [VERSION + 1, 0, -1])
def test_a_note_of_another_version_says_so(version: int) -> None:
    assert read(changed(version=version, news="of tomorrow")) is NoteProblem.VERSION


@pytest.mark.parametrize(
    "fields",
    [
        {"version": "1"},
        {"version": None},
        {"version": True},
        {"held_tokens": -1},
        {"held_tokens": 1 << 40},
        {"held_tokens": "160"},
        {"turn": ""},
        {"turn": "t" * 257},
        {"decode": ""},
        {"seal": "short"},
        {"more": 1},
    ],
)
def test_a_note_of_another_form_is_malformed(fields: dict[str, object]) -> None:
    assert read(changed(**fields)) is NoteProblem.MALFORMED


def test_a_note_that_holds_more_than_its_prompt_is_malformed() -> None:
    note = SEAL.on(PrefillNote(VERSION, D, P, 1_001, "turn"), PROMPT)

    assert read(note_params(note)) is NoteProblem.MALFORMED


@given(content=junk)
def test_no_content_raises_or_is_believed(content: object) -> None:
    assert read({KEY: content}) in {None, NoteProblem.MALFORMED, NoteProblem.VERSION}
    assert read(content) is None
    assert read_receipt({KEY: content}) is None
    assert read_receipt(content) is None


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="15 bytes; give at least 16"):
        Seal(b"x" * 15)


def test_a_receipt_is_read_as_it_was_sent() -> None:
    assert read_receipt(msgspec.json.decode(msgspec.json.encode(receipt_params(RECEIPT)))) == RECEIPT


def test_a_later_receipt_is_not_understood_and_a_longer_one_is() -> None:
    content = msgspec.to_builtins(RECEIPT)

    assert read_receipt({KEY: content | {"version": 2}}) is None
    assert read_receipt({KEY: content | {"more": 1}}) == RECEIPT
