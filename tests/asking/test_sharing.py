# SPDX-License-Identifier: Apache-2.0
"""Who shares a prefill, and what is left when someone leaves."""

from tandem_connector.asking.sharing import Left, ShareKey, Sharing
from tandem_connector.asking.types import Arrival, PrefillId
from tandem_connector.exchange.types import RequestId
from tests.asking.builders import an_arrival


def join(sharing: Sharing, arrival: Arrival) -> PrefillId:
    return sharing.join(ShareKey.of(arrival, 62), arrival)


def test_identical_prompts_share_one_prefill() -> None:
    sharing = Sharing()

    first, second = join(sharing, an_arrival("one")), join(sharing, an_arrival("two"))

    assert first == second
    assert sharing.members(first) == (RequestId("one"), RequestId("two"))
    assert sharing.leader(first).request == "one"


def test_prompts_that_differ_in_the_last_partial_block_only_share() -> None:
    sharing = Sharing()

    assert join(sharing, an_arrival("one", tokens=1_000)) == join(sharing, an_arrival("two", tokens=1_007))


def test_other_prompts_adapters_and_salts_do_not_share() -> None:
    sharing = Sharing()
    arrivals = [
        an_arrival("plain"),
        an_arrival("other", chain="y"),
        an_arrival("adapter", lora="l"),
        an_arrival("tenant", salt="s"),
    ]

    assert len({join(sharing, arrival) for arrival in arrivals}) == 4


def test_the_next_in_line_leads_when_the_leader_leaves() -> None:
    sharing = Sharing()
    prefill = join(sharing, an_arrival("one"))
    join(sharing, an_arrival("two"))
    join(sharing, an_arrival("three"))

    assert sharing.leave(RequestId("one")) == Left(prefill, an_arrival("two"), is_over=False)
    assert sharing.leader(prefill).request == "two"


def test_nothing_changes_for_the_others_when_a_follower_leaves() -> None:
    sharing = Sharing()
    prefill = join(sharing, an_arrival("one"))
    join(sharing, an_arrival("two"))

    assert sharing.leave(RequestId("two")) == Left(prefill, None, is_over=False)


def test_a_prefill_is_over_when_the_last_one_leaves() -> None:
    sharing = Sharing()
    prefill = join(sharing, an_arrival("one"))

    assert sharing.leave(RequestId("one")) == Left(prefill, None, is_over=True)
    assert len(sharing) == 0
    assert join(sharing, an_arrival("again")) != prefill


def test_whoever_comes_after_the_end_leads_a_new_prefill() -> None:
    sharing = Sharing()
    prefill = join(sharing, an_arrival("one"))

    assert sharing.close(prefill) == (RequestId("one"),)
    assert sharing.prefill_of(RequestId("one")) is None
    assert join(sharing, an_arrival("two")) != prefill


def test_a_request_that_takes_no_part_leaves_nothing() -> None:
    assert Sharing().leave(RequestId("unknown")) is None
