# SPDX-License-Identifier: Apache-2.0
"""Peer tables that name far more engines than there are, or than a process can speak with."""

from dataclasses import replace

from tandem_connector.exchange.types import EngineId
from tandem_connector.vllm.network.endpoint import Endpoint
from tandem_connector.vllm.network.events import PeerJoined, PeerRefused
from tandem_connector.vllm.network.greeting import Stage as Greeting
from tests.network.builders import QUICK, Stage, introduce, table


def nobody(count: int) -> dict[EngineId, Endpoint]:
    """Engines at addresses where nobody listens."""
    return {EngineId(f"nobody-{number}"): Endpoint("127.0.0.1", 1 + number) for number in range(count)}


def test_a_peer_joins_among_more_that_are_not_there_than_zeromq_has_sockets_for_by_itself(stage: Stage) -> None:
    one, other = stage.engine("one"), stage.engine("other")
    one.network.set_peers(nobody(1_100) | table(other))
    other.network.set_peers(table(one))
    assert one.hears(PeerJoined).peer == other.name


def test_peers_beyond_what_a_process_has_sockets_for_are_refused_by_name_and_the_others_stay(stage: Stage) -> None:
    few = replace(QUICK, sockets=4)
    one, other = stage.engine("one", settings=few), stage.engine("other")
    introduce(one, other)
    one.network.set_peers(table(other) | nobody(5))
    assert one.hears(PeerRefused).why.startswith("no socket is left")
    assert one.network.stages()[other.name] is Greeting.JOINED
    assert Greeting.REFUSED in one.network.stages().values()
