# SPDX-License-Identifier: Apache-2.0
"""A peer that has left the peer table, step by step: what was begun with it has its time, and then it costs nothing any more."""

from tandem_connector.exchange.types import Seconds
from tandem_connector.vllm.parting import LEAVES_AFTER, PARTS_AFTER, Parting
from tests.exchange.builders import OTHER, PEER

NOW = Seconds(100.0)
PARTED = Seconds(NOW + PARTS_AFTER)
LEFT = Seconds(PARTED + LEAVES_AFTER)


def parted() -> Parting:
    parting = Parting()
    parting.told(PEER, NOW)
    assert parting.take_parted(PARTED) == [PEER]
    return parting


def test_what_was_asked_of_it_has_some_seconds_to_get_its_blocks() -> None:
    parting = Parting()
    parting.told(PEER, NOW)
    assert (parting.take_parted(NOW), parting.parted, parting.next_due()) == ([], frozenset(), PARTED)
    assert (parting.take_parted(PARTED), list(parting.parted), list(parting.open)) == ([PEER], [PEER], [PEER])
    assert parting.take_parted(PARTED) == []


def test_it_is_left_some_time_after_the_ranks_have_no_connection_to_it() -> None:
    parting = parted()
    parting.closed(PEER, PARTED)
    assert (parting.is_closed(PEER), parting.open, parting.next_due()) == (True, frozenset(), LEFT)
    assert parting.take_left(PARTED, lambda _: True) == []
    assert parting.take_left(LEFT, lambda _: True) == [PEER]
    assert (list(parting.parted), parting.next_due()) == ([PEER], None)


def test_one_that_may_still_write_is_looked_at_again() -> None:
    parting = parted()
    parting.closed(PEER, PARTED)
    assert parting.take_left(LEFT, lambda _: False) == []
    assert parting.next_due() == Seconds(LEFT + LEAVES_AFTER)


def test_one_that_is_listed_again_or_has_ended_is_forgotten() -> None:
    parting = Parting()
    parting.told(PEER, NOW)
    assert not parting.over(PEER)
    assert (parting.take_parted(PARTED), parting.next_due()) == ([], None)
    parting = parted()
    parting.closed(PEER, PARTED)
    parting.told(OTHER, PARTED)
    assert parting.over(PEER)
    assert (parting.parted, parting.is_closed(PEER)) == (frozenset(), False)
    assert parting.next_due() == Seconds(PARTED + PARTS_AFTER)
