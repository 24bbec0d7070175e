# SPDX-License-Identifier: Apache-2.0
"""An engine that is told to end: what it hands over and when, and how far it says it has come."""

from tandem_connector.contract.messages import Offer, Purpose, Took, Want
from tandem_connector.contract.types import EngineId, OfferId, WantId
from tandem_connector.exchange.types import OfferedRun, Seconds
from tandem_connector.vllm.draining import SUCCESSOR_WITHIN, Draining, DrainOrder
from tandem_connector.vllm.status import DrainStage
from tests.exchange.builders import OTHER, PEER, Engine, names

SERVING, DRAINING, DRAINED = DrainStage.SERVING, DrainStage.DRAINING, DrainStage.DRAINED


class Ending:
    """A `Draining` over a real exchange, whose cache holds two conversations."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.cache = [OfferedRun(0, names(0, 3, "new")), OfferedRun(0, names(0, 2, "old"))]
        for run in self.cache:
            self.engine.pool.cached(*run.hashes)
        self.draining = Draining(self.engine.exchange, lambda: self.cache)

    def told(self, successor: EngineId | None = PEER, *, drains: bool = True) -> "Ending":
        self.draining.told(DrainOrder(drains, successor), self.engine.now)
        return self

    def joined(self, peer: EngineId = PEER) -> "Ending":
        self.engine.with_peer(peer)
        self.draining.reached(peer, self.engine.now)
        return self

    def silent(self, peer: EngineId = PEER) -> "Ending":
        self.draining.falls_silent(peer, self.engine.now)
        self.engine.exchange.peer_silent(peer, self.engine.now)
        return self

    def offered(self) -> list[tuple[int, str]]:
        """Position and first name of each offer, all of moves."""
        offers = [message for message in self.engine.messages() if isinstance(message, Offer)]
        assert {offer.purpose for offer in offers} <= {Purpose.MOVE}
        return [(offer.position, offer.hashes[0].decode()) for offer in offers]

    def hears(self, *offers: int) -> "Ending":
        """The successor lacks nothing of these."""
        for offer in offers:
            self.engine.hears(Took(OfferId(offer), left=0))
        return self

    def later(self, seconds: float) -> "Ending":
        self.engine.now = Seconds(self.engine.now + seconds)
        self.draining.tick(self.engine.now)
        return self

    def stage(self, *, busy: bool = False) -> DrainStage:
        return self.draining.stage(busy=busy)


BOTH = [(0, "new-000000"), (0, "old-000000")]


def test_the_cache_is_offered_in_its_order_when_the_table_and_the_successor_are_there() -> None:
    assert Ending().joined().told().offered() == BOTH


def test_a_successor_that_joins_later_is_waited_for() -> None:
    ending = Ending().told()
    assert (ending.offered(), ending.stage()) == ([], DRAINING)
    assert ending.joined(OTHER).offered() == []
    assert ending.joined().offered() == BOTH


def test_a_successor_that_does_not_join_in_time_is_given_up_and_served_if_it_joins_all_the_same() -> None:
    ending = Ending().told()
    assert ending.later(SUCCESSOR_WITHIN - 1).stage() is DRAINING
    assert ending.draining.next_due() == Seconds(ending.engine.now + 1)
    assert ending.later(1).stage() is DRAINED
    assert ending.draining.next_due() is None
    assert ending.joined().offered() == BOTH
    assert ending.stage() is DRAINING


def test_a_successor_that_is_there_is_given_all_its_time() -> None:
    ending = Ending().joined().told()
    assert ending.draining.next_due() is None
    assert ending.later(2 * SUCCESSOR_WITHIN).stage() is DRAINING


def test_each_successor_is_waited_for_anew() -> None:
    ending = Ending().told().later(SUCCESSOR_WITHIN)
    assert ending.told(OTHER).stage() is DRAINING
    assert ending.later(SUCCESSOR_WITHIN).stage() is DRAINED


def test_a_table_that_says_the_same_begins_nothing_anew() -> None:
    ending = Ending().joined().told()
    ending.offered()
    assert ending.told().offered() == []


def test_all_is_offered_to_another_successor_and_again_to_one_that_was_lost() -> None:
    ending = Ending().joined().joined(OTHER).told()
    ending.offered()
    assert ending.told(OTHER).offered() == BOTH
    ending.engine.exchange.peer_silent(OTHER, ending.engine.now)
    ending.engine.exchange.peer_back(OTHER, ending.engine.now)
    ending.draining.reached(OTHER, ending.engine.now)
    assert ending.offered() == BOTH


def test_one_that_falls_silent_while_it_is_moved_to_is_waited_for_and_no_longer_than_one_that_has_not_joined() -> None:
    ending = Ending().joined().told().silent()
    ending.offered()
    assert ending.stage() is DRAINING
    ending.engine.exchange.peer_back(PEER, ending.engine.now)
    ending.draining.reached(PEER, ending.engine.now)
    assert ending.offered() == BOTH
    assert ending.silent().later(SUCCESSOR_WITHIN - 1).stage() is DRAINING
    assert ending.later(1).stage() is DRAINED


def test_one_that_falls_silent_when_all_was_moved_is_not_waited_for() -> None:
    ending = Ending().joined().told().hears(1, 2)
    assert ending.silent().stage() is DRAINED


def test_what_a_request_adds_is_offered_at_its_end() -> None:
    ending = Ending().joined().told()
    ending.offered()
    ending.engine.pool.cached(*names(3, 5, "new"))
    ending.draining.request_ended(names(0, 5, "new"), ending.engine.now)
    ending.draining.request_ended(names(0, 5, "new"), ending.engine.now)
    assert ending.offered() == [(3, "new-000003")]


def test_a_request_that_ends_before_the_successor_is_there_is_part_of_the_cache() -> None:
    ending = Ending().told()
    ending.draining.request_ended(names(0, 3, "new"), ending.engine.now)
    assert ending.joined().offered() == BOTH


def test_it_is_drained_when_requests_have_ended_all_is_moved_and_no_peer_waits() -> None:
    ending = Ending().joined()
    assert ending.stage(busy=True) is SERVING
    ending.told()
    ending.engine.hears(Want(WantId(7), Purpose.FORWARD, names(0, 1, "new"), (3,), 9.0, wait=False), peer=PEER)
    (write,) = ending.engine.writes()
    assert ending.hears(1, 2).stage() is DRAINING
    ending.engine.wrote(write)
    assert ending.stage(busy=True) is DRAINING
    assert ending.stage() is DRAINED


def test_without_a_successor_only_what_is_asked_for_is_waited_for() -> None:
    ending = Ending().joined().told(None)
    assert (ending.offered(), ending.stage(busy=True), ending.stage()) == ([], DRAINING, DRAINED)


def test_an_engine_that_is_to_stay_serves_and_takes_offers_again() -> None:
    ending = Ending().joined().told()
    offer = Offer(OfferId(1), Purpose.REVERSE_PUSH, 0, names(0, 1, "peers"))
    ending.engine.hears(offer)
    assert not any(isinstance(message, Want) for message in ending.engine.messages())
    assert ending.told(None, drains=False).stage() is SERVING
    ending.engine.hears(offer)
    assert any(isinstance(message, Want) for message in ending.engine.messages())
