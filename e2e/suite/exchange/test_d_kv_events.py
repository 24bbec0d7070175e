# SPDX-License-Identifier: Apache-2.0
"""What a gateway that follows KV events learns of blocks that engines exchange: the same as of blocks that they compute.

The engines have an API key, and forget after a second what they measured, which the last tests are about.
"""

import base64
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.progress import wait_until
from e2e.engine.environment import build_environment
from e2e.engine.model import MODEL_NAME
from e2e.exchange.engines import BLOCK_SIZE, Engine, Engines, EngineSpec, running
from e2e.exchange.kv_events import Heard, listening, publishing_to
from e2e.exchange.numbers import value_of
from e2e.exchange.ports import free_port
from e2e.exchange.prompts import Prompt
from tandem_connector.contract.environment import API_KEY
from tandem_connector.contract.types import Role
from tandem_connector.vllm.journal import read_journal

pytestmark = pytest.mark.long

Event = dict[str, Any]
FIRST, MORE, AND_MORE = Prompt(21, 700), Prompt(22, 100), Prompt(23, 100)
OUTPUT = 200
SETTINGS = {"disaggregate_above_tokens": 64, "estimate_age": 1.0}
KEY = {API_KEY: "known-to-both"}


@dataclass(frozen=True)
class Story:
    """Three turns, before each but the first of which prefill lost its cache; and what both engines published."""

    tokens: list[int]
    """Of the first turn, the answer included."""
    prefill: list[Event]
    decode: list[Event]
    landed: set[int]
    """Names, as events have them: the last eight bytes. Prefill's journal says that they have landed."""
    prefill_after: list[Event]
    """From the loss of its cache to the end of the second turn."""
    tokens_after: list[int]
    prefill_turns: list[dict[str, Any]]
    decode_turns: list[dict[str, Any]]
    metrics: str
    """Prefill's, at the end."""


@pytest.fixture(scope="module")
def story(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder, environment = tmp_path_factory.mktemp("events"), build_environment()
    ports = {"prefill": free_port(), "decode": free_port()}
    with (
        listening(environment, folder / "events", *ports.values()) as heard,
        running(environment, model, folder / "pair") as engines,
    ):
        engines.start(
            prefill=EngineSpec(Role.PREFILL, "0", publishing_to(ports["prefill"]), SETTINGS, KEY),
            decode=EngineSpec(Role.DECODE, "1", publishing_to(ports["decode"]), SETTINGS, KEY),
        )
        engines.wait_for_connections()
        yield _told(engines, model, heard, ports)


def _told(engines: Engines, model: Path, heard: Heard, ports: dict[str, int]) -> Story:
    prefill, decode = engines["prefill"], engines["decode"]
    first = FIRST.ids(model)
    tokens = [*first, *_answer(decode, first)]
    blocks = (len(tokens) - 1) // BLOCK_SIZE
    _until_stored(heard, ports["prefill"], blocks)
    _until_stored(heard, ports["decode"], blocks)
    before = {name: heard.of(port) for name, port in ports.items()}
    landed = _landed(prefill)

    time.sleep(1.5)  # whatever was measured is forgotten
    assert prefill.post("/reset_prefix_cache")["success"]
    more = [*tokens, *MORE.ids(model)]
    tokens_after = [*more, *_answer(decode, more)]
    published = len(before["prefill"])
    _until_stored(heard, ports["prefill"], (len(tokens_after) - 1) // BLOCK_SIZE, since=published)
    after = heard.of(ports["prefill"])[published:]

    assert prefill.post("/reset_prefix_cache")["success"]
    _answer(decode, [*tokens_after, *AND_MORE.ids(model)])
    wait_until("prefill to end its turns", lambda: len(prefill.turns()) == 3 or None, 20.0)
    wait_until("metrics to be told", lambda: _choices(prefill.metrics()) == 2 or None, 20.0)
    turns, metrics = (prefill.turns(), decode.turns()), prefill.metrics()
    return Story(tokens, before["prefill"], before["decode"], landed, after, tokens_after, *turns, metrics)


def _choices(metrics: str, **labels: str) -> float:
    return value_of(metrics, "tandem_choices_total", of="fetch", **labels)


def _answer(engine: Engine, ids: Sequence[int]) -> list[int]:
    body = {"model": MODEL_NAME, "prompt": ids, "max_tokens": OUTPUT, "temperature": 0.0, "ignore_eos": True}
    answer = engine.post("/v1/completions", {**body, "return_token_ids": True})
    tokens: list[int] = answer["choices"][0]["token_ids"]
    return tokens


def _until_stored(heard: Heard, port: int, blocks: int, *, since: int = 0) -> None:
    """Until so many blocks were published after the first `since` events."""
    wait_until(f"{blocks} published blocks", lambda: len(_blocks(heard.of(port)[since:])) >= blocks or None, 20.0)


def _landed(engine: Engine) -> set[int]:
    names = set()
    for entry in read_journal(engine.journal):
        if entry.kind == "pool":
            question, arguments, committed = json.loads(bytes(entry.content))
            if question == "commit" and committed:
                names.add(int.from_bytes(base64.b64decode(arguments[0])[-8:], "big"))
    return names


def _blocks(events: Sequence[Event]) -> dict[int, Event]:
    """Each block that was stored, by name, as if it had been published alone: vLLM tells of consecutive ones at once."""
    blocks = {}
    for event in events:
        if event["event"] != "BlockStored":
            continue
        names, size = event["block_hashes"], event["block_size"]
        parents = [event["parent_block_hash"], *names]
        for index, name in enumerate(names):
            blocks[name] = {
                **event,
                "block_hashes": [name],
                "parent_block_hash": parents[index],
                "token_ids": event["token_ids"][index * size : (index + 1) * size],
                "extra_keys": [event["extra_keys"][index]],
            }
    return blocks


def _chain(blocks: dict[int, Event]) -> list[int]:
    """Names from the beginning of the only sequence to its end."""
    by_parent = {block["parent_block_hash"]: name for name, block in blocks.items()}
    assert len(by_parent) == len(blocks)
    names: list[int] = []
    while (following := by_parent.get(names[-1] if names else None)) is not None:
        names.append(following)
    assert len(names) == len(blocks)
    return names


def _tokens(blocks: dict[int, Event]) -> list[int]:
    return [token for name in _chain(blocks) for token in blocks[name]["token_ids"]]


def _whole(tokens: Sequence[int]) -> list[int]:
    """The tokens of whole blocks; the last token of an answer has no KV."""
    return list(tokens[: (len(tokens) - 1) // BLOCK_SIZE * BLOCK_SIZE])


def test_prefill_publishes_what_it_computed_and_what_landed_and_nothing_else(story: Story) -> None:
    published = _blocks(story.prefill)
    computed = _chain(published)[: FIRST.tokens // BLOCK_SIZE]
    assert story.landed
    assert set(published) == {*computed, *story.landed}
    assert len(published) == len(computed) + len(story.landed)
    assert sum(len(event["block_hashes"]) for event in story.prefill) == len(published)


def test_the_tokens_it_publishes_are_those_of_the_turn(story: Story) -> None:
    assert _tokens(_blocks(story.prefill)) == _whole(story.tokens)


def test_what_landed_is_published_as_decode_published_it_when_it_computed_it(story: Story) -> None:
    prefill, decode = _blocks(story.prefill), _blocks(story.decode)
    assert [prefill[name] for name in story.landed] == [decode[name] for name in story.landed]


def test_each_block_is_published_after_its_parent(story: Story) -> None:
    for events in (story.prefill, story.decode):
        seen: set[int | None] = {None}
        for name, block in _blocks(events).items():
            assert block["parent_block_hash"] in seen
            seen.add(name)


def test_what_decode_received_for_its_request_is_published_by_vllm_itself(story: Story) -> None:
    decode = _blocks(story.decode)
    assert set(_chain(_blocks(story.prefill))[: FIRST.tokens // BLOCK_SIZE]) <= set(decode)
    assert _tokens(decode) == _whole(story.tokens)


def test_so_is_what_prefill_fetches_after_its_cache_was_cleared(story: Story) -> None:
    assert [event["event"] for event in story.prefill_after].count("AllBlocksCleared") == 1
    assert story.prefill_turns[1]["received"]["reverse_fetch"] >= len(_whole(story.tokens)) - BLOCK_SIZE
    assert _tokens(_blocks(story.prefill_after)) == _whole(story.tokens_after)


def test_prefill_takes_what_decode_asks_for_with_the_key_of_both(story: Story) -> None:
    assert [turn["local"] for turn in story.decode_turns] == ["", "", ""]
    assert [turn["computed"] > 0 for turn in story.prefill_turns] == [True, True, True]


def test_what_decode_holds_is_fetched_before_anything_is_measured(story: Story) -> None:
    first, second, _ = story.prefill_turns
    assert (first["fetch"], second["fetch"]) == (None, True)


def test_and_by_what_was_measured_afterwards_as_the_account_and_the_metrics_say(story: Story) -> None:
    third = story.prefill_turns[2]
    held = len(_whole(story.tokens_after))
    assert third["fetch"] in {True, False}
    assert (third["received"].get("reverse_fetch", 0) >= held - BLOCK_SIZE) == third["fetch"]
    assert (third["computed"] >= held) != third["fetch"]
    fetched = sum(turn["fetch"] is True for turn in story.prefill_turns)
    assert (_choices(story.metrics, choice="fetch"), _choices(story.metrics, choice="compute")) == (
        fetched,
        2 - fetched,
    )
