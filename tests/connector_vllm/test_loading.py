# SPDX-License-Identifier: Apache-2.0
"""Requests that wait for blocks from elsewhere: how their wait begins, turns to another peer, and always ends, once."""

from collections.abc import Sequence

import pytest

from tandem_connector.asking.commands import ComputeLocally, Prefilled, WantFrom
from tandem_connector.asking.types import LocalReason
from tandem_connector.contract.messages import CancelAck, Missing, MissingReason, Offer, Purpose, Want
from tandem_connector.contract.types import OfferId, WantId
from tandem_connector.exchange.commands import LoadEnded, Send
from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.settings import ExchangeSettings
from tandem_connector.exchange.types import BlockId, EngineId, RequestId, Seconds
from tandem_connector.exchange.worth import Worth
from tandem_connector.vllm.asker import Decision
from tandem_connector.vllm.loading import DECISION_PATIENCE, Loading
from tandem_connector.vllm.orders import FinishedLoad
from tandem_connector.vllm.turns import Source
from tests.exchange.builders import ME, Engine, indices, names
from tests.exchange.toy_pool import BLOCK_SIZE

R, OTHER = RequestId("r"), RequestId("other")
P1, P2 = EngineId("p1"), EngineId("p2")
SOURCE = Source(P1, 4, Seconds(200.0), Purpose.REVERSE_FETCH)


def landing(blocks: int) -> Offer:
    return Offer(OfferId(1), Purpose.REVERSE_PUSH, 0, names(0, blocks))


class HeardAsker:
    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def progressed(self, request: RequestId) -> None:
        self.heard.append(("progressed", request))

    def unserved(self, request: RequestId, engine: EngineId) -> None:
        self.heard.append(("unserved", engine))

    def helps_itself(self, request: RequestId) -> None:
        self.heard.append(("helps_itself", request))


class Requests:
    """Drives `Loading` over a real exchange with a toy pool and two peers."""

    def __init__(self, *, offers: bool = False, fetches: bool = True, settings: ExchangeSettings | None = None) -> None:
        self.engine = Engine(settings=settings).with_peer(P1).with_peer(P2)
        self.exchange: Exchange = self.engine.exchange
        self.asker = HeardAsker()
        self.coming: set[RequestId] = set()
        self.worth = Worth(BLOCK_SIZE, Seconds(60.0))
        self.loading = Loading(
            self.exchange, self.asker, self.coming, self.worth, hold=3.0, offers=offers, fetches=fetches
        )
        self.sent: list[Send] = []

    def measured(self, *, token: float, block: float) -> "Requests":
        """A prompt token takes so long to compute, and a block to come."""
        self.worth.computed(100, 100 * token, self.now)
        self.worth.moved(100, 100 * block, self.now)
        return self

    @property
    def now(self) -> Seconds:
        return self.engine.now

    def settle(self) -> "Requests":
        """Carry out commands, as `Conduct` does."""
        while commands := self.exchange.commands():
            for command in commands:
                match command:
                    case LoadEnded():
                        self.loading.load_ended(command, self.now)
                    case Send():
                        self.sent.append(command)
        return self

    def arrives(
        self, request: RequestId = R, blocks: int = 4, *, source: Source | None = None, first: int = 0
    ) -> "Requests":
        asked = source is None
        if asked:
            self.coming.add(request)
        self.loading.arrived(request, names(first, first + blocks), self.now, asked=asked, source=source)
        return self

    def decided(self, decision: Decision) -> "Requests":
        self.loading.decided(decision, self.now)
        return self.settle()

    def from_p(self, engine: EngineId = P1, *, request: RequestId = R, start: int = 0, stop: int = 4) -> "Requests":
        return self.decided(WantFrom(request, engine, start, stop, Seconds(self.now + 20)))

    def matched(self, computed: int = 0, usable: int = 4, request: RequestId = R) -> int | None:
        return self.loading.matched(request, computed, usable, self.now)

    def waits(self, *, computed: int = 0) -> Sequence[BlockId]:
        """The scheduler finds a place for the request, which waits from now on."""
        count = self.matched(computed)
        assert count
        blocks = self.engine.pool.take(4)
        assert blocks is not None
        self.loading.allocated(R, blocks, self.now)
        self.settle()
        return blocks

    def comes(self, want: int, *values: int) -> "Requests":
        self.engine.received(WantId(want), *values)
        return self.settle()

    def lacks(self, want: int, *values: int, peer: EngineId = P1) -> "Requests":
        message = Missing(WantId(want), indices(*values) if values else None, MissingReason.NOBODY)
        self.engine.hears(message, peer=peer, target=ME)
        return self.settle()

    def wants(self) -> list[tuple[EngineId, Want]]:
        return [(send.peer, send.message) for send in self.sent if isinstance(send.message, Want)]


def test_a_request_waits_for_the_decision_and_then_for_its_blocks() -> None:
    requests = Requests().arrives()
    assert requests.matched() is None
    requests.from_p()
    blocks = requests.waits()

    ((peer, want),) = requests.wants()
    assert (peer, want.hashes, want.destinations, want.wait) == (P1, names(0, 4), tuple(blocks), True)
    assert want.purpose is Purpose.FORWARD
    requests.comes(1, 0, 1, 2, 3)
    assert requests.loading.finished.take() == (FinishedLoad(R, ()),)
    assert requests.matched() == 0


def test_a_wait_that_lacks_nothing_can_end_without_the_ranks_once() -> None:
    requests = Requests().arrives().from_p()
    requests.waits()
    requests.comes(1, 0, 1, 2, 3)
    assert requests.loading.finished.take_whole() == {R}
    assert requests.loading.finished.take() == ()
    assert requests.loading.finished.take_whole() == frozenset()


def test_a_wait_that_lacks_blocks_ends_through_the_ranks() -> None:
    requests = Requests().arrives().from_p()
    blocks = requests.waits()
    requests.comes(1, 0, 1, 3).lacks(1, 2).decided(ComputeLocally(R, LocalReason.NO_PEER, None))
    assert requests.loading.finished.take_whole() == frozenset()
    assert requests.loading.finished.take() == (FinishedLoad(R, (blocks[2],)),)


def test_a_decision_that_is_made_before_the_request_reaches_the_scheduler_is_kept() -> None:
    requests = Requests()
    requests.coming.add(R)
    requests.from_p().arrives()
    assert requests.matched() == 4


def test_a_decision_on_a_request_that_is_over_is_not_kept() -> None:
    requests = Requests().from_p().arrives()
    assert requests.matched() is None


def test_only_what_the_engine_lacks_is_waited_for() -> None:
    requests = Requests().arrives().from_p()
    assert requests.matched(computed=3) == 1
    requests = Requests().arrives().from_p()
    assert requests.matched(computed=4) == 0


def test_a_prompt_that_is_computed_here_is_not_waited_for() -> None:
    requests = Requests().arrives().decided(ComputeLocally(R, LocalReason.FEW_MISSING, None))
    assert requests.matched() == 0


def test_without_a_decision_the_engine_computes_after_some_time() -> None:
    requests = Requests().arrives()
    requests.engine.at(DECISION_PATIENCE - 0.1)
    assert requests.matched() is None
    assert requests.loading.waits(R)
    assert requests.loading.next_due() == 100.0 + DECISION_PATIENCE
    requests.engine.at(0.2)
    assert requests.matched() == 0
    assert requests.asker.heard == [("helps_itself", R)]


def test_what_the_peer_lacks_is_asked_of_the_next_one_and_what_came_is_kept() -> None:
    requests = Requests().arrives().from_p(P1)
    blocks = requests.waits()
    requests.comes(1, 0, 1).lacks(1, 2, 3)
    assert requests.asker.heard[-1] == ("unserved", P1)
    assert requests.loading.finished.take() == ()

    requests.from_p(P2)
    peer, want = requests.wants()[-1]
    assert (peer, want.hashes, want.destinations) == (P2, names(2, 4), tuple(blocks[2:]))
    requests.comes(2, 0, 1)
    assert requests.loading.finished.take() == (FinishedLoad(R, ()),)


@pytest.mark.parametrize(
    ("last_word", "why"),
    [
        (ComputeLocally(R, LocalReason.ALL_FAILED, None), "all_failed"),
        (Prefilled(R, P1, None, Seconds(1.0)), "undelivered"),
    ],
)
def test_when_nobody_else_is_asked_the_engine_computes_what_lacks_and_knows_why(last_word: Decision, why: str) -> None:
    requests = Requests().arrives().from_p()
    blocks = requests.waits()
    requests.comes(1, 0).lacks(1, 1, 2, 3).decided(last_word)
    assert requests.loading.finished.take() == (FinishedLoad(R, tuple(blocks[1:])),)
    turn = requests.loading.turn(R)
    assert turn is not None
    assert turn.why_local == why


def test_after_the_last_word_nobody_is_asked_any_more() -> None:
    requests = Requests().arrives().from_p()
    blocks = requests.waits()
    requests.decided(Prefilled(R, P1, None, Seconds(1.0))).lacks(1)
    assert requests.loading.finished.take() == (FinishedLoad(R, tuple(blocks)),)
    assert ("unserved", P1) not in requests.asker.heard


def test_a_wait_for_the_next_decision_is_bounded() -> None:
    requests = Requests().arrives().from_p()
    blocks = requests.waits()
    requests.lacks(1)
    due = requests.loading.next_due()
    assert due == requests.now + DECISION_PATIENCE
    requests.loading.tick(Seconds(due))
    assert requests.loading.finished.take() == (FinishedLoad(R, tuple(blocks)),)
    assert requests.loading.next_due() is None


def test_a_request_that_turns_to_another_peer_is_not_told_of_the_first_one() -> None:
    requests = Requests().arrives().from_p(P1)
    requests.waits()
    requests.comes(1, 0).from_p(P2)
    assert [peer for peer, _ in requests.wants()] == [P1, P2]
    requests.engine.hears(CancelAck(WantId(1)), peer=P1)
    requests.comes(2, 0, 1, 2, 3)
    assert requests.loading.finished.take() == (FinishedLoad(R, ()),)
    turn = requests.loading.request_ended(R, requests.now)
    assert turn is not None
    assert turn.asked == [P1, P2]


def test_a_wait_that_is_given_up_keeps_what_has_come() -> None:
    requests = Requests().arrives().from_p()
    blocks = requests.waits()
    requests.comes(1, 0, 1).decided(ComputeLocally(R, LocalReason.TOO_LATE, None))
    assert requests.loading.finished.take() == (FinishedLoad(R, tuple(blocks[2:])),)


def test_a_peer_that_does_not_answer_is_passed_over() -> None:
    requests = Requests().arrives().from_p()
    requests.exchange.peer_silent(P1, requests.now)
    requests.waits()
    assert requests.wants() == []
    assert requests.asker.heard == [("unserved", P1)]


def test_an_engine_computes_what_would_expose_more_of_its_pool_than_it_can_do_without() -> None:
    requests = Requests(settings=ExchangeSettings(exposed_blocks=5)).arrives().from_p()
    requests.waits()
    requests.arrives(OTHER, first=10).from_p(request=OTHER)
    assert requests.matched(request=OTHER) == 0
    assert requests.asker.heard == [("helps_itself", OTHER)]


def test_a_request_of_which_half_may_be_exposed_wants_its_blocks_in_two_parts() -> None:
    requests = Requests(settings=ExchangeSettings(exposed_blocks=3)).arrives().from_p()
    requests.waits()
    requests.engine.received(WantId(1), 0, 1, 2)
    requests.settle()
    wants = [send.message for send in requests.sent if isinstance(send.message, Want)]
    assert [want.hashes for want in wants] == [names(0, 3), names(3, 4)]
    assert requests.loading.finished.take() == ()
    requests.engine.received(WantId(2), 0)
    requests.settle()
    assert requests.loading.finished.take() == (FinishedLoad(R, ()),)


def test_what_lacks_of_a_part_is_asked_of_the_next_peer_though_the_first_may_still_write_into_it() -> None:
    requests = Requests(settings=ExchangeSettings(exposed_blocks=4)).arrives().from_p()
    requests.waits()
    requests.exchange.peer_silent(P1, requests.now)
    requests.settle().from_p(P2)
    wants = [(send.peer, send.message.hashes) for send in requests.sent if isinstance(send.message, Want)]
    assert wants == [(P1, names(0, 4)), (P2, names(0, 4))]


def test_the_next_peer_gets_no_more_to_write_into_than_the_first_had() -> None:
    requests = Requests(settings=ExchangeSettings(exposed_blocks=3)).arrives().from_p()
    requests.waits()
    requests.comes(1, 0)
    requests.exchange.peer_silent(P1, requests.now)
    requests.settle().from_p(P2)
    assert [want.hashes for _, want in requests.wants()] == [names(0, 3), names(1, 3)]


def test_and_does_so_as_long_as_a_silent_peer_may_write_into_it() -> None:
    requests = Requests(settings=ExchangeSettings(exposed_blocks=5)).arrives().from_p()
    requests.waits()
    requests.exchange.peer_silent(P1, requests.now)
    requests.settle().arrives(OTHER).from_p(P2, request=OTHER)
    assert requests.matched(request=OTHER) == 0
    requests.exchange.peer_back(P1, requests.now)
    requests.engine.hears(CancelAck(WantId(1)), peer=P1, target=ME)
    again = RequestId("again")
    requests.settle().arrives(again).from_p(P2, request=again)
    assert requests.matched(request=again) == 4


def test_the_wait_of_a_request_that_is_aborted_ends_and_its_blocks_are_given_back() -> None:
    requests = Requests().arrives().from_p()
    blocks = requests.waits()
    requests.exchange.request_ended(R, requests.now, offer=False)
    turn = requests.loading.request_ended(R, requests.now)
    requests.settle()
    assert turn is not None
    assert requests.loading.finished.take() == (FinishedLoad(R, ()),)
    requests.engine.hears(CancelAck(WantId(1)), peer=P1)
    requests.engine.pool.unpin(blocks)
    assert requests.engine.pool.free == 100


def test_a_request_that_is_aborted_between_two_peers_ends_as_well() -> None:
    requests = Requests().arrives().from_p()
    requests.waits()
    requests.lacks(1)
    requests.loading.request_ended(R, requests.now)
    assert requests.loading.finished.take() == (FinishedLoad(R, ()),)
    assert requests.loading.next_due() is None


def test_after_a_reset_of_the_cache_nothing_that_came_is_used() -> None:
    requests = Requests().arrives().from_p()
    blocks = requests.waits()
    requests.comes(1, 0, 1)
    requests.exchange.reset(requests.now)
    requests.settle()
    assert requests.loading.finished.take() == (FinishedLoad(R, tuple(blocks)),)
    assert requests.asker.heard[-1] == ("helps_itself", R)


def test_blocks_that_are_on_their_way_for_another_request_are_waited_for() -> None:
    requests = Requests().arrives().from_p()
    requests.waits()
    requests.arrives(OTHER).from_p(request=OTHER)
    assert requests.matched(request=OTHER) is None
    requests.comes(1, 0, 1, 2, 3)
    assert requests.matched(computed=4, request=OTHER) == 0
    assert [peer for peer, _ in requests.wants()] == [P1]


def test_and_until_they_have_entered_the_cache() -> None:
    requests = Requests().arrives().from_p()
    requests.waits()
    requests.arrives(OTHER).from_p(request=OTHER).comes(1, 0, 1, 2, 3)
    assert requests.matched(request=OTHER) is None
    requests.loading.computes(R)
    assert requests.matched(request=OTHER) == 4


def test_but_not_longer_than_that_is_worth() -> None:
    requests = Requests().arrives().from_p()
    requests.waits()
    requests.arrives(OTHER).from_p(request=OTHER)
    assert requests.matched(request=OTHER) is None
    assert requests.loading.next_due() == requests.now + 3.0
    requests.engine.now = Seconds(requests.now + 3.1)
    assert requests.loading.tick(requests.now)
    assert requests.loading.next_due() is None
    assert requests.matched(request=OTHER) == 4


def test_what_lands_is_waited_for_as_long_as_computing_it_would_take() -> None:
    requests = Requests().measured(token=0.5, block=0.01)
    requests.engine.hears(landing(3), peer=P1)
    requests.arrives(source=SOURCE)
    assert requests.matched() is None
    assert requests.loading.next_due() == requests.now + 3 * BLOCK_SIZE * 0.5
    requests.engine.now = Seconds(requests.now + 3.0)
    assert requests.matched() == 4


def test_what_lands_is_not_waited_for_when_it_is_computed_sooner() -> None:
    requests = Requests().measured(token=0.001, block=1.0)
    requests.engine.hears(landing(3), peer=P1)
    requests.arrives(source=SOURCE)
    assert requests.matched() == 0
    turn = requests.loading.turn(R)
    assert turn is not None
    assert (turn.hold, turn.fetch) == (0.0, False)


@pytest.mark.parametrize(("block", "fetched"), [(0.001, 4), (1.0, 0)])
def test_what_decode_holds_is_fetched_if_that_is_sooner_than_to_compute_it(block: float, fetched: int) -> None:
    requests = Requests().measured(token=0.01, block=block).arrives(source=SOURCE)
    assert requests.matched() == fetched
    turn = requests.loading.turn(R)
    assert turn is not None
    assert (turn.hold, turn.fetch) == (None, bool(fetched))


def test_a_choice_is_made_once() -> None:
    requests = Requests().arrives(source=SOURCE)
    assert requests.matched() == 4
    requests.measured(token=0.001, block=1.0)
    assert requests.matched() == 4


def test_what_was_asked_of_prefill_is_waited_for_whatever_was_measured() -> None:
    requests = Requests().measured(token=0.001, block=1.0).arrives().from_p()
    assert requests.matched() == 4


def test_prefill_fetches_what_decode_holds_and_does_not_wait_for_the_rest() -> None:
    source = Source(P1, 3, Seconds(200.0), Purpose.REVERSE_FETCH, least=2)
    requests = Requests().arrives(source=source)
    blocks = requests.waits(computed=1)
    ((_, want),) = requests.wants()
    assert (want.hashes, want.wait, want.purpose) == (names(1, 3), False, Purpose.REVERSE_FETCH)
    requests.comes(1, 0).lacks(1, 1)
    assert requests.loading.finished.take() == (FinishedLoad(R, (blocks[2],)),)


def test_prefill_does_not_fetch_what_is_not_worth_it() -> None:
    source = Source(P1, 3, Seconds(200.0), Purpose.REVERSE_FETCH, least=2)
    assert Requests().arrives(source=source).matched(computed=2) == 0


def test_an_engine_that_may_not_fetch_does_not() -> None:
    source = Source(P1, 3, Seconds(200.0), Purpose.REVERSE_FETCH)
    assert Requests(fetches=False).arrives(source=source).matched() == 0


def test_a_preempted_request_is_computed_again_and_not_asked_for() -> None:
    requests = Requests().arrives().from_p()
    requests.waits()
    requests.comes(1, 0, 1, 2, 3)
    requests.loading.finished.take()
    assert requests.matched() == 0


def test_the_account_says_what_came_and_how_long_it_took() -> None:
    requests = Requests().arrives().from_p()
    requests.waits(computed=1)
    requests.engine.now = Seconds(requests.now + 1.5)
    requests.comes(1, 0, 1, 2)
    turn = requests.loading.request_ended(R, requests.now)
    assert turn is not None
    assert (turn.local_blocks, turn.received, turn.waited) == (1, {Purpose.FORWARD: 3}, 1.5)
