# SPDX-License-Identifier: Apache-2.0
"""What becomes of the exchange when vLLM was told to end."""

from tandem_connector.contract.messages import Cancel, CancelAck, Missing, MissingReason, Offer, Purpose, Want
from tandem_connector.contract.types import OfferId, WantId
from tandem_connector.vllm.ending import PATIENCE, RESERVE, Ending
from tests.exchange.builders import Engine, indices, names

TIMEOUT = RESERVE + 1.0


class End:
    """An `Ending` over a real exchange that a peer wants a block of, which nobody has, and that wants one itself."""

    def __init__(self, timeout: float = TIMEOUT) -> None:
        self.engine = Engine().with_peer()
        self.engine.wants(names(0, 1))
        self.engine.hears(Want(WantId(7), Purpose.FORWARD, names(5, 6), (3,), 100.0, wait=True))
        self.engine.commands()
        self.told = False
        self.ending = Ending(self.engine.exchange, lambda: self.told, timeout)

    def look(self, *, busy: bool) -> bool:
        return self.ending.look(self.engine.now, busy=busy)


BOTH_TOLD = [Cancel(WantId(1)), Missing(WantId(7), indices(0), MissingReason.SHUTDOWN)]


def test_nothing_ends_before_it_is_told() -> None:
    end = End()
    assert not end.look(busy=False)
    assert end.ending.next_due() is None
    assert not end.ending.is_over(end.engine.now)


def test_requests_are_finished_first_and_then_peers_are_told_both_ways() -> None:
    end = End()
    end.told = True
    assert not end.look(busy=True)
    assert end.engine.messages() == []
    assert end.look(busy=False)
    assert end.engine.messages() == BOTH_TOLD
    assert not end.look(busy=False)


def test_meanwhile_nothing_that_peers_offer_is_taken() -> None:
    end = End()
    end.told = True
    end.look(busy=True)
    end.engine.hears(Offer(OfferId(1), Purpose.REVERSE_PUSH, 0, names(20, 21)))
    assert end.engine.messages() == []


def test_peers_are_told_before_vllms_time_is_over_whatever_is_not_finished() -> None:
    end = End()
    end.told = True
    end.look(busy=True)
    assert end.ending.next_due() == end.engine.now + TIMEOUT - RESERVE
    end.engine.at(TIMEOUT - RESERVE).messages()
    assert end.look(busy=True)
    assert end.engine.messages() == BOTH_TOLD


def test_with_less_time_than_that_they_are_told_at_once() -> None:
    end = End(timeout=RESERVE / 2)
    end.told = True
    assert end.look(busy=True)


def test_the_engine_steps_until_all_is_acknowledged_but_not_for_ever() -> None:
    end = End()
    end.told = True
    end.look(busy=False)
    assert end.engine.exchange.expects_workers
    assert not end.ending.is_over(end.engine.now)
    end.engine.hears(CancelAck(WantId(1)))
    assert not end.engine.exchange.expects_workers
    end.engine.at(PATIENCE)
    assert end.ending.is_over(end.engine.now)
