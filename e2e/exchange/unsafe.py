# SPDX-License-Identifier: Apache-2.0
"""The exchange without what makes it safe: that a check finds nothing means something only when it finds what these do."""

from typing import ClassVar

from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.keeping import Keeping
from tandem_connector.exchange.own_want import OwnWant
from tandem_connector.exchange.types import Seconds
from tandem_connector.exchange.wanting import Wanting


class KeepingNothing(Keeping):
    """Gives the blocks of an ended want back at once, as if no write could be on its way."""

    def hold(self, want: OwnWant, now: Seconds) -> None:
        """See the base class."""
        del now
        self._release(want)


class WantingWithoutQuarantine(Wanting):
    """What is wrong with it is only `KeepingNothing`."""

    _keeping_type: ClassVar[type[Keeping]] = KeepingNothing


class ExchangeWithoutQuarantine(Exchange):
    """What is wrong with it is only `WantingWithoutQuarantine`."""

    _wanting_type: ClassVar[type[Wanting]] = WantingWithoutQuarantine
