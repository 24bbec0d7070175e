# SPDX-License-Identifier: Apache-2.0
"""What notifications tell, what is ignored of them, and how often the writer looks."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_connector.exchange.types import Index, WantId
from tandem_connector.vllm.pacing import Activity, Intervals, Pacing
from tandem_connector.vllm.receipts import MAX_EARLY_INDICES, MAX_NOTIFICATION_BYTES, Receipts, notification_of
from tandem_connector.vllm.reports import Received

WANT = WantId(7)


def told(want: int = WANT, *indices: int) -> bytes:
    return notification_of(WantId(want), tuple(Index(index) for index in indices))


def expecting(blocks: int = 4, agent: str = "a/0") -> Receipts:
    receipts = Receipts()
    receipts.expect(WANT, agent, blocks)
    return receipts


def test_the_indices_of_an_expected_want_are_reported() -> None:
    assert expecting().arrived("a/0", told(WANT, 2, 0)) == Received(WANT, (Index(2), Index(0)))


def test_what_comes_before_its_want_is_reported_with_it() -> None:
    receipts = Receipts()
    assert receipts.arrived("a/0", told(WANT, 0)) is None
    assert receipts.arrived("a/0", told(WANT, 1)) is None

    assert receipts.expect(WANT, "a/0", 4) == [Received(WANT, (Index(0),)), Received(WANT, (Index(1),))]


def test_what_comes_early_from_another_agent_is_not_reported() -> None:
    receipts = Receipts()
    receipts.arrived("b/0", told(WANT, 0))

    assert receipts.expect(WANT, "a/0", 4) == []
    assert receipts.counts.malformed == 1


@pytest.mark.parametrize(
    ("agent", "notification"),
    [
        ("a/0", b""),
        ("a/0", b"garbage"),
        ("a/0", b"\xff" * 100),
        ("a/0", told(WANT, 4)),
        ("b/0", told(WANT, 1)),
        ("a/0", msgspec.msgpack.encode([WANT, []])),
        ("a/0", msgspec.msgpack.encode([WANT, [-1]])),
        ("a/0", msgspec.msgpack.encode([WANT, [1 << 40]])),
        ("a/0", msgspec.msgpack.encode(["7", [1]])),
        ("a/0", msgspec.msgpack.encode([WANT, [1], "more"])),
        ("a/0", told(WANT, 1) + b"x"),
        ("a/0", b"\x00" * (MAX_NOTIFICATION_BYTES + 1)),
    ],
)
def test_what_is_no_notification_of_this_want_is_counted_and_ignored(agent: str, notification: bytes) -> None:
    receipts = expecting()

    assert receipts.arrived(agent, notification) is None
    assert (receipts.counts.malformed, receipts.counts.late) == (1, 0)
    assert receipts.arrived("a/0", told(WANT, 1)) == Received(WANT, (Index(1),))


@given(st.binary(max_size=200))
def test_no_bytes_from_the_network_raise(notification: bytes) -> None:
    expecting().arrived("a/0", notification)


def test_what_comes_after_its_want_was_forgotten_is_late() -> None:
    receipts = expecting()
    receipts.forget(WANT)

    assert receipts.arrived("a/0", told(WANT, 1)) is None
    assert receipts.counts.late == 1
    assert not receipts.expecting


def test_a_want_that_this_engine_never_had_is_late_once_a_newer_one_is_open() -> None:
    receipts = expecting()

    receipts.arrived("a/0", told(WANT - 1, 1))

    assert receipts.counts.late == 1


def test_what_comes_early_is_bounded_and_the_oldest_goes() -> None:
    receipts = Receipts()
    half = tuple(Index(index) for index in range(MAX_EARLY_INDICES // 2))
    for want in (1, 2, 3):
        receipts.arrived("a/0", notification_of(WantId(want), half))

    assert receipts.counts.evicted == 1
    assert receipts.expect(WantId(1), "a/0", len(half)) == []
    assert receipts.expect(WantId(2), "a/0", len(half)) == [Received(WantId(2), half)]


def test_the_room_of_what_came_early_is_given_back_when_its_want_opens() -> None:
    receipts = Receipts()
    full = tuple(Index(index) for index in range(MAX_EARLY_INDICES))
    for want in (1, 2, 3):
        receipts.arrived("a/0", notification_of(WantId(want), full))
        assert receipts.expect(WantId(want), "a/0", len(full)) == [Received(WantId(want), full)]

    assert receipts.counts.evicted == 0


def test_an_older_want_after_a_newer_one_is_an_error() -> None:
    with pytest.raises(ValueError, match="want 6 after want 7"):
        expecting().expect(WantId(6), "a/0", 4)


INTERVALS = Intervals(fastest=1.0, moving=8.0, expecting=16.0, expecting_share=0.25, idle=1000.0)


def test_while_nothing_moves_the_interval_doubles_up_to_its_longest() -> None:
    pacing = Pacing(INTERVALS)

    waited = [pacing.after_poll(Activity.MOVING, moved=False) for _ in range(6)]

    assert waited == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


def test_a_poll_that_moved_something_is_followed_by_the_fastest() -> None:
    pacing = Pacing(INTERVALS)
    for _ in range(6):
        pacing.after_poll(Activity.MOVING, moved=False)

    assert pacing.after_poll(Activity.MOVING, moved=True) == 1.0
    assert pacing.after_poll(Activity.MOVING, moved=False) == 2.0


def test_a_long_wait_for_a_peer_is_slower_than_one_for_a_transfer() -> None:
    pacing = Pacing(INTERVALS)
    for _ in range(20):
        pacing.after_poll(Activity.EXPECTING, moved=False)

    assert pacing.after_poll(Activity.EXPECTING, moved=False) == 16.0
    assert pacing.after_poll(Activity.MOVING, moved=False) == 8.0


@given(polls=st.integers(1, 500), share=st.floats(0.01, 1.0))
def test_no_wait_for_a_peer_ends_later_by_more_than_its_share_of_it(polls: int, share: float) -> None:
    intervals = replace(INTERVALS, expecting_share=share)
    pacing, waited = Pacing(intervals), 0.0
    for _ in range(polls):
        pause = pacing.after_poll(Activity.EXPECTING, moved=False)
        assert pause <= max(intervals.moving, waited * share)
        waited += pause


def test_a_write_that_comes_makes_the_next_wait_a_short_one() -> None:
    pacing = Pacing(INTERVALS)
    for _ in range(20):
        pacing.after_poll(Activity.EXPECTING, moved=False)
    pacing.after_poll(Activity.EXPECTING, moved=True)

    assert max(pacing.after_poll(Activity.EXPECTING, moved=False) for _ in range(4)) == 8.0


def test_idle_is_slow_at_once_and_what_follows_is_fast() -> None:
    pacing = Pacing(INTERVALS)
    for _ in range(6):
        pacing.after_poll(Activity.EXPECTING, moved=False)

    assert pacing.after_poll(Activity.IDLE, moved=True) == 1000.0
    assert pacing.after_poll(Activity.MOVING, moved=False) == 1.0
