# SPDX-License-Identifier: Apache-2.0
"""The exchange under every fault that its surroundings can have, and proof that the check sees a fault of its own."""

import re
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from e2e.exchange.unsafe import ExchangeWithoutQuarantine
from tandem_connector.exchange.availability import Fresh
from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.own_want import OwnWant
from tandem_connector.exchange.peers import Peers
from tandem_connector.exchange.posting import Posting
from tandem_connector.exchange.serving import Serving
from tandem_connector.exchange.tombstones import Tombstones
from tandem_connector.exchange.types import BlockId, Index, Seconds
from tandem_connector.exchange.wanting import Wanting
from tests.exchange.builders import names
from tests.exchange.machine import ExchangeMachine, PartingMachine
from tests.exchange.toy_pool import ToyPool, Violation
from tests.exchange.world import World

WALK = settings(
    max_examples=400,
    stateful_step_count=50,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def test_no_content_is_wrong_no_block_has_two_owners_and_every_want_ends() -> None:
    run_state_machine_as_test(ExchangeMachine, settings=WALK)


def test_nor_is_any_when_engines_part_and_meet_again() -> None:
    run_state_machine_as_test(PartingMachine, settings=WALK)


CONTROL = settings(WALK, max_examples=5_000, phases=[Phase.generate], report_multiple_bugs=False)
"""Ends with the first violation. Which walks are gone depends also on what else is loaded, of which Hypothesis takes constants."""


def assert_found(pattern: str, machine: type[ExchangeMachine] = ExchangeMachine) -> None:
    """The walk breaks a rule with this text. What is broken too when the walk's end is checked, is raised in its place."""
    with pytest.raises(Violation) as found:
        run_state_machine_as_test(machine, settings=CONTROL)
    error: BaseException | None = found.value
    told = []
    while error is not None:
        told.append(str(error))
        error = error.__context__
    assert re.search(pattern, "\n".join(told))


class MachineWithoutQuarantine(ExchangeMachine):
    exchange_type: ClassVar[type[Exchange]] = ExchangeWithoutQuarantine


def test_without_the_quarantine_the_same_walk_finds_a_write_into_a_foreign_block() -> None:
    assert_found("a write lands in block", MachineWithoutQuarantine)


def test_without_tombstones_the_same_walk_finds_a_write_into_a_foreign_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tombstones, "covers", lambda self, want: False)
    assert_found("a write lands in block")


def test_if_fresh_blocks_were_written_at_once_the_same_walk_finds_wrong_content(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Fresh, "step_of", lambda self, block: None)
    assert_found(r"garbage|is good")


def test_if_peers_were_not_told_of_an_engines_end_the_same_walk_finds_what_it_leaves_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Serving, "refuse", lambda self, why, now: None)
    assert_found("the end of .* leaves blocks in quarantine")


def test_if_the_wants_of_parted_peers_were_served_the_same_walk_finds_a_write_without_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Peers, "has_parted", lambda self, engine: False)
    assert_found("to which it is not connected", PartingMachine)


class UnpinningPool(ToyPool):
    """Ignores the references that are taken for writes."""

    def pin(self, blocks: Sequence[BlockId]) -> None:
        del blocks

    def unpin(self, blocks: Sequence[BlockId]) -> None:
        del blocks


def test_if_sources_were_not_referenced_the_same_walk_finds_wrong_content(monkeypatch: pytest.MonkeyPatch) -> None:
    def post(posting: Posting, *arguments: Any) -> None:
        pool, posting._pool = posting._pool, UnpinningPool(0)
        original_post(posting, *arguments)
        posting._pool = pool

    def unpin(posting: Posting, sources: tuple[BlockId, ...]) -> None:
        posting.pinned -= len(sources)

    original_post = Posting.post
    monkeypatch.setattr(Posting, "post", post)
    monkeypatch.setattr(Posting, "_unpin", unpin)
    assert_found(r"garbage|is good")


def land_what_broke_after_it_was_said_to_be_missing() -> None:
    """The walk comes here too seldom to be a control."""
    world = World(2)
    holder, wanter = world.places
    world.begin(holder, names(0, 2), None, wait=False)
    world.schedule(holder, 2)
    world.run(holder)
    world.begin(wanter, names(0, 2), holder, wait=True)
    world.deliver(world.network.pop())
    (write,) = holder.jobs
    world.post(holder, write)
    (flight,) = world.flights
    world.tear(flight)
    world.report(holder)
    world.deliver(world.network.pop())
    world.land(flight, 0)
    world.settle()


def test_a_broken_write_may_land_after_its_want_has_ended() -> None:
    land_what_broke_after_it_was_said_to_be_missing()


def test_if_a_broken_write_were_taken_for_an_ended_one_it_would_land_in_a_foreign_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def await_no_more(wanting: Wanting, want: OwnWant, told: set[Index], now: Seconds, *, uncertain: bool) -> None:
        del uncertain
        original(wanting, want, told, now, uncertain=False)

    original = Wanting._await_no_more
    monkeypatch.setattr(Wanting, "_await_no_more", await_no_more)
    with pytest.raises(Violation, match="a write lands in block"):
        land_what_broke_after_it_was_said_to_be_missing()
