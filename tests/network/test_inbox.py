# SPDX-License-Identifier: Apache-2.0
"""What waits for the scheduler: bounded in all, and given in parts."""

from tandem_connector.contract.messages import Cancel, Envelope
from tandem_connector.contract.types import EngineId, WantId
from tandem_connector.exchange.types import Seconds
from tandem_connector.vllm.network.events import Event, PeerSilent, Received
from tandem_connector.vllm.network.inbox import Inbox

PEER = EngineId("peer")


def message(number: int) -> Received:
    return Received(Envelope(PEER, EngineId("me"), Cancel(WantId(number))), Seconds(0.0))


def filled(*sizes: int, at_once: int) -> Inbox:
    """Messages of these sizes, numbered from 0 on."""
    inbox = Inbox(1_000, at_once)
    for number, size in enumerate(sizes):
        assert inbox.offer(message(number), size)
    return inbox


def test_much_is_given_in_parts_and_what_is_longer_than_a_part_alone() -> None:
    inbox = filled(4, 4, 4, 30, 1, at_once=10)
    parts: list[list[Event]] = []
    while not inbox.is_empty:
        parts.append(inbox.take())
    assert parts == [[message(0), message(1)], [message(2)], [message(3)], [message(4)]]
    assert inbox.take() == []


def test_what_happened_to_peers_is_given_between_messages_in_its_order() -> None:
    inbox = filled(6, at_once=10)
    inbox.put(PeerSilent(PEER))
    inbox.offer(message(1), 6)
    assert inbox.take() == [message(0), PeerSilent(PEER)]
    assert inbox.take() == [message(1)]


def test_the_room_of_what_was_given_is_there_again() -> None:
    inbox = filled(400, 500, at_once=10)
    assert not inbox.offer(message(2), 200)
    inbox.take()
    assert inbox.offer(message(2), 200)
