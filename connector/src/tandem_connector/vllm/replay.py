# SPDX-License-Identifier: Apache-2.0
"""Goes through a journal again: the same events must make the exchange ask the same of the pool, and command the same.

`python -m tandem_connector.vllm.replay JOURNAL` says how far that is so. Under a debugger it stops where it was wrong.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.settings import ExchangeSettings
from tandem_connector.exchange.types import BlockHash, BlockId, Derivation, EngineId, Pool
from tandem_connector.vllm.journal import Entry, read_journal
from tandem_connector.vllm.recording import BEGIN, COMMANDS, EVENTS, POOL, described


class ReplayError(Exception):
    """The journal can't be replayed, or this exchange does something else; the text names the entry."""


class _Begin(msgspec.Struct):
    engine: EngineId
    settings: ExchangeSettings


def replay(entries: Iterable[Entry]) -> Exchange:
    """Replay a journal from its first entry to its last, leaving out what is not of the exchange.

    Returns:
        The exchange, as it was at the end.

    Raises:
        ReplayError: the journal doesn't begin with the exchange's beginning, or the exchange diverges from it.
    """
    tape = _Tape(entries)
    first = tape.following()
    if first is None or first.kind != BEGIN:
        raise ReplayError("the journal doesn't begin where the engine did: it was longer than its limit, raise that")
    begin = msgspec.json.decode(first.content, type=_Begin)
    exchange = Exchange(begin.engine, _TapePool(tape), begin.settings)
    while (entry := tape.following()) is not None:
        if entry.kind == COMMANDS:
            tape.compare(msgspec.json.encode(described(exchange.commands())))
        elif entry.kind == POOL:
            raise ReplayError(f"{tape.place}: the pool was asked {bytes(entry.content)!r}, and is not now")
        else:
            method = getattr(exchange, entry.kind)
            method(**_arguments(get_type_hints(method), entry.content))
    return exchange


class _Tape:
    def __init__(self, entries: Iterable[Entry]) -> None:
        kinds = {BEGIN, COMMANDS, POOL, *EVENTS}
        self._entries: Iterator[tuple[int, Entry]] = (
            (number, entry) for number, entry in enumerate(entries, 1) if entry.kind in kinds
        )
        self._number = 0
        self._entry: Entry | None = None

    @property
    def place(self) -> str:
        return f"entry {self._number}"

    def following(self) -> Entry | None:
        self._number, self._entry = next(self._entries, (self._number, None))
        return self._entry

    def compare(self, now: bytes) -> None:
        assert self._entry is not None  # noqa: S101
        if bytes(self._entry.content) != now:
            raise ReplayError(f"{self.place} ({self._entry.kind}): {bytes(self._entry.content)!r} was, {now!r} is now")


class _TapePool:
    """Gives the answers that the pool gave."""

    def __init__(self, tape: _Tape) -> None:
        self._tape = tape

    def lookup(self, block_hash: BlockHash) -> BlockId | None:
        return self._ask("lookup", block_hash)  # type: ignore[no-any-return]

    def pin(self, blocks: Sequence[BlockId]) -> None:
        self._ask("pin", tuple(blocks))

    def unpin(self, blocks: Sequence[BlockId]) -> None:
        self._ask("unpin", tuple(blocks))

    def room(self, landing: int) -> int:
        return self._ask("room", landing)  # type: ignore[no-any-return]

    def take(self, count: int) -> tuple[BlockId, ...] | None:
        return self._ask("take", count)  # type: ignore[no-any-return]

    def commit(self, block_hash: BlockHash, block: BlockId, position: int, derivation: Derivation | None) -> bool:
        return self._ask("commit", block_hash, block, position, derivation)  # type: ignore[no-any-return]

    def derivations(self, hashes: Sequence[BlockHash]) -> tuple[Derivation, ...] | None:
        return self._ask("derivations", tuple(hashes))  # type: ignore[no-any-return]

    def _ask(self, name: str, *arguments: object) -> Any:
        entry = self._tape.following()
        if entry is None or entry.kind != POOL:
            found = "nothing" if entry is None else entry.kind
            raise ReplayError(f"{self._tape.place}: the pool is asked {name}{arguments}, and {found} was")
        result = msgspec.json.decode(entry.content, type=tuple[str, msgspec.Raw, msgspec.Raw])[2]
        self._tape.compare(msgspec.json.encode((name, arguments, result)))
        return msgspec.json.decode(result, type=get_type_hints(getattr(Pool, name))["return"])


def _arguments(hints: dict[str, Any], content: msgspec.Raw) -> dict[str, Any]:
    values = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    return {name: msgspec.json.decode(value, type=_concrete(hints[name])) for name, value in values.items()}


def _concrete(hint: Any) -> Any:
    return list[get_args(hint)] if get_origin(hint) is Iterable else hint  # type: ignore[misc]


def main() -> None:
    """Replay the journal that is named on the command line."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tandem_connector.vllm.replay JOURNAL")
    try:
        exchange = replay(read_journal(Path(sys.argv[1])))
    except (ReplayError, OSError, msgspec.MsgspecError) as error:
        sys.exit(f"{sys.argv[1]}: {error}")
    sys.stdout.write(f"the same to the end: {exchange.gauges()}\n")


if __name__ == "__main__":
    main()
