# SPDX-License-Identifier: Apache-2.0
"""What the parts of one engine's exchange have in common."""

from dataclasses import dataclass, field

from tandem_connector.exchange.outbox import Outbox
from tandem_connector.exchange.peers import Peers
from tandem_connector.exchange.settings import ExchangeSettings
from tandem_connector.exchange.tally import Tally
from tandem_connector.exchange.types import Pool


@dataclass(frozen=True, slots=True)
class Shared:
    """The pool that all parts take from, and where they put what they have to say."""

    settings: ExchangeSettings
    pool: Pool
    peers: Peers = field(default_factory=Peers)
    outbox: Outbox = field(default_factory=Outbox)
    tally: Tally = field(default_factory=Tally)
