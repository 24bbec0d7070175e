# SPDX-License-Identifier: Apache-2.0
"""What an engine that has done nothing yet says of itself."""

from dataclasses import fields

from tandem_connector.exchange.tally import Gauges, Tally
from tandem_connector.vllm.fabric import Fabric
from tandem_connector.vllm.metrics import State
from tandem_connector.vllm.peer_counts import NO_NEWS
from tandem_connector.vllm.status import Status

QUIET = State(
    tally=Tally(),
    gauges=Gauges(**dict.fromkeys((each.name for each in fields(Gauges)), 0)),
    network=None,
    tables=None,
    asking=None,
    peers=0,
    peers_refused=2,
    fabric=Fabric("UCX", "", 0),
    status=Status(),
    block_bytes=1,
    peer_news=NO_NEWS,
)
