# SPDX-License-Identifier: Apache-2.0
"""How many blocks can't be reused because an engine that may still write into them doesn't answer."""

from collections.abc import Iterable

from tandem_connector.exchange.commands import Healthy, Unhealthy
from tandem_connector.exchange.held import Held
from tandem_connector.exchange.outbox import Outbox
from tandem_connector.exchange.types import BlockId


class Quarantine:
    """Counts the blocks, and says when there are too many or enough are back."""

    def __init__(self, limit: int, outbox: Outbox) -> None:
        self._limit = limit
        self._outbox = outbox
        self._held = Held()

    @property
    def blocks(self) -> int:
        """How many there are."""
        return len(self._held)

    @property
    def full(self) -> bool:
        """Nothing new may be wanted: its blocks could end here too."""
        return self.blocks > self._limit

    def enter(self, blocks: Iterable[BlockId]) -> None:
        """A want's blocks wait for an engine that doesn't answer."""
        was_full = self.full
        self._held.add(blocks)
        if self.full and not was_full:
            self._outbox.put(
                Unhealthy(
                    f"{self.blocks} blocks, more than {self._limit}, can't be reused: engines that may still write into "
                    "them don't answer; restart this engine, or remove those engines' pods"
                )
            )

    def leave(self, blocks: Iterable[BlockId]) -> None:
        """They were released, or their engine answers again."""
        was_full = self.full
        self._held.remove(blocks)
        if was_full and not self.full:
            self._outbox.put(Healthy())
