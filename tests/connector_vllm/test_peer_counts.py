# SPDX-License-Identifier: Apache-2.0
"""What went between an engine and each peer is told by the peer's pod, wholly, and no longer than there is such a peer."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tandem_connector.contract.messages import Purpose
from tandem_connector.contract.reverse import Reverse
from tandem_connector.contract.types import EngineId, Role
from tandem_connector.exchange.tally import Moved, Tally
from tandem_connector.exchange.types import Seconds
from tandem_connector.vllm.metrics import Meter, merged
from tandem_connector.vllm.peer_counts import KEPT, NO_NEWS, PeerCounts, PeerNews, PeerPod
from tests.connector_vllm.quiet import QUIET

T0 = Seconds(1_000.0)
D0, D1 = PeerPod("d-0", Role.DECODE), PeerPod("d-1", Role.DECODE)
FORWARD = Purpose.FORWARD


def a_prefill() -> PeerCounts:
    return PeerCounts(Role.PREFILL, Reverse.PUSH_AND_FETCH)


def received(uid: str, blocks: int, purpose: Purpose = Purpose.REVERSE_PUSH) -> Moved:
    return Moved(received=Counter({(EngineId(f"{uid}-1"), purpose): blocks}))


def later(seconds: float) -> Seconds:
    return Seconds(T0 + seconds)


def test_a_peer_that_is_listed_has_its_series_at_once_at_nothing_for_what_may_go_between_such_two() -> None:
    for role, reverse, written, back in (
        (Role.PREFILL, Reverse.PUSH_AND_FETCH, {FORWARD}, {Purpose.REVERSE_PUSH, Purpose.REVERSE_FETCH}),
        (Role.PREFILL, Reverse.DISABLED, {FORWARD}, set()),
        (Role.DECODE, Reverse.PUSH, {Purpose.REVERSE_PUSH}, {FORWARD}),
    ):
        counts = PeerCounts(role, reverse)
        counts.look({"u": PeerPod("peer", role.other), "h": PeerPod("heir", role)}, T0)
        news = counts.take()
        moves = {("heir", Purpose.MOVE): 0}
        assert news.written == {**{("peer", purpose): 0 for purpose in written}, **moves}
        assert news.received == {**{("peer", purpose): 0 for purpose in back}, **moves}
        assert counts.take() == NO_NEWS


def test_a_process_that_began_anew_and_a_pod_that_came_in_its_place_go_on_with_the_series_of_their_name() -> None:
    counts = a_prefill()
    counts.look({"a": D0}, T0)
    counts.add(Moved(received=Counter({(EngineId(f"a-{start}"), Purpose.REVERSE_PUSH): 2 for start in (1, 2)})), T0)
    counts.look({"b": D0}, later(1))
    counts.add(received("b", 3), later(1))
    assert counts.take().received["d-0", Purpose.REVERSE_PUSH] == 7
    counts.tick(later(KEPT + 2))
    assert (counts.take(), counts.next_due()) == (NO_NEWS, None)


def test_a_peer_that_is_listed_no_more_goes_a_while_after_its_last_block() -> None:
    counts = a_prefill()
    counts.look({"a": D0, "b": D1}, T0)
    counts.look({"b": D1}, later(1))
    counts.add(received("a", 1), later(10))
    counts.take()
    assert counts.next_due() == later(10 + KEPT)
    counts.tick(later(10 + KEPT - 1))
    assert counts.take() == NO_NEWS
    counts.tick(later(10 + KEPT))
    assert counts.take() == PeerNews({}, {}, ("d-0",))
    assert counts.next_due() is None


def test_a_peer_that_is_listed_again_in_time_stays() -> None:
    counts = a_prefill()
    tables: list[dict[str, PeerPod]] = [{"a": D0}, {}, {"a": D0}]
    for at, listed in enumerate(tables):
        counts.look(listed, later(at))
    counts.tick(later(10 * KEPT))
    assert counts.take().gone == ()


def test_what_goes_over_a_pair_is_told_in_bytes_and_with_the_news_that_it_is_gone() -> None:
    meter = Meter()
    assert meter.news(QUIET) is not None
    assert meter.news(QUIET) is None
    listed = meter.news(replace(QUIET, block_bytes=512, peer_news=PeerNews({("d-0", FORWARD): 0}, {}, ())))
    assert listed is not None
    assert listed["counters"] == {"peer_bytes_received": {"d-0|forward": 0}}
    moved = meter.news(replace(QUIET, block_bytes=512, peer_news=PeerNews({}, {("d-0", FORWARD): 3}, ())))
    assert moved is not None
    assert moved["counters"] == {"peer_bytes_written": {"d-0|forward": 1536}}
    gone = meter.news(replace(QUIET, block_bytes=512, peer_news=PeerNews({}, {}, ("d-0",))))
    assert gone is not None
    assert (gone["counters"], gone["gone"]) == ({}, ["d-0"])


def test_a_peer_that_is_gone_and_back_in_one_piece_of_news_keeps_what_is_new() -> None:
    gone = {"counters": {}, "gauges": {}, "waits": [], "gone": ["d-0", "d-1"]}
    back = {"counters": {"peer_bytes_written": {"d-0|forward": 5}}, "gauges": {}, "waits": [], "gone": []}
    assert merged(gone, back)["gone"] == ["d-1"]
    assert merged(back, gone)["gone"] == ["d-0", "d-1"]


UIDS = st.sampled_from("abcde")
NAMES = st.sampled_from(["d-0", "d-1", "d-2"])
TABLES = st.dictionaries(UIDS, st.builds(PeerPod, NAMES, st.sampled_from(Role)), max_size=3)
ENGINES = st.builds(lambda uid, start: EngineId(f"{uid}-{start}"), UIDS, st.integers(1, 2))
HAPPENINGS = st.lists(
    st.one_of(
        TABLES,
        st.tuples(st.booleans(), ENGINES, st.sampled_from(Purpose), st.integers(1, 9)),
        st.floats(0.1, 200.0),
        st.none(),
    ),
    max_size=60,
)


@given(HAPPENINGS)
def test_pairs_together_are_the_engines_own_sums_and_no_series_is_left_of_anybody_who_is_long_gone(
    happenings: list[dict[str, PeerPod] | tuple[bool, EngineId, Purpose, int] | float | None],
) -> None:
    """Whatever the order of tables, blocks, time and looks."""
    counts, tally, now = a_prefill(), Tally(), T0
    listed: dict[str, PeerPod] = {}
    shown: set[str] = set()
    told: Counter[tuple[str, Purpose]] = Counter()

    def tell() -> None:
        counts.tick(now)
        counts.add(tally.take_moved(), now)
        news = counts.take()
        for way, added in (("received", news.received), ("written", news.written)):
            for (pod, purpose), blocks in added.items():
                told[way, purpose] += blocks
                shown.add(pod)
        shown.difference_update(news.gone)
        assert {pod.name for pod in listed.values()} <= shown
        for purpose in Purpose:
            assert told["received", purpose] == tally.blocks_received[purpose]
            assert told["written", purpose] == tally.blocks_written[purpose]

    for happening in happenings:
        match happening:
            case dict():
                listed = happening
                counts.look(listed, now)
            case (True, engine, purpose, blocks):
                tally.count_received(engine, purpose, blocks)
            case (False, engine, purpose, blocks):
                tally.count_written(engine, purpose, blocks)
            case float():
                now = Seconds(now + happening)
            case _:
                tell()
    tell()
    now = Seconds(now + KEPT)
    tell()
    assert shown == {pod.name for pod in listed.values()}
