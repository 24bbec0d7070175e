# SPDX-License-Identifier: Apache-2.0
"""Where the parts of the exchange put their commands, in the order in which they are to be carried out."""

from tandem_connector.exchange.commands import Command


class Outbox:
    """Commands that were not taken yet."""

    def __init__(self) -> None:
        self._commands: list[Command] = []

    def put(self, command: Command) -> None:
        """Add one at the end."""
        self._commands.append(command)

    def drain(self) -> list[Command]:
        """All commands since the last call."""
        taken, self._commands = self._commands, []
        return taken

    def __bool__(self) -> bool:
        return bool(self._commands)
