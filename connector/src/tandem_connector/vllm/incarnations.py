# SPDX-License-Identifier: Apache-2.0
"""Which process answers for each engine of the peer table.

The operator names an engine by its pod's UID and by what the API server says of its process's start; the process can't know
that, and names itself by the pod's UID and a start of its own (`contract.types.pod_of`). So an engine that is new in the
table is greeted by the table's name, and says `Gone` in its own: from then on it goes by that. The answer comes over the
connection to the pod's address, which only who has the resource's key can give. Data-parallel ranks are known one by one.
"""

from collections.abc import Iterable, Mapping

from tandem_connector.contract.peers import Peer
from tandem_connector.contract.types import EngineId, Seat, engine_of_rank, seat_of


class Incarnations:
    """Of the engines in one peer table. Not for several threads at once."""

    def __init__(self) -> None:
        self._listed: tuple[Peer, ...] = ()
        self._ranks: dict[EngineId, int] = {}
        """By the table's name of a pod's engines: how many data-parallel ranks there are."""
        self._answering: dict[Seat, EngineId] = {}
        """The process that answered last."""
        self._settled: set[EngineId] = set()
        """The table's names under which a process was found."""

    def table(self, peers: Iterable[Peer], gone: Iterable[str] = ()) -> None:
        """A new peer table holds; the pods that are `gone` never come back.

        A process that is known stays so under a new name of its pod, until another one answers to that name: a table may come
        later than the process itself, and what has once counted as ended is never spoken with again. It also stays known while
        its pod isn't listed: it may be listed again.
        """
        entries = tuple(peers)
        self._ranks = {peer.engine: peer.parallelism.data for peer in entries}
        self._listed = tuple(engine for peer in entries for engine in peer.engines())
        ended = set(gone)
        self._answering = {seat: process for seat, process in self._answering.items() if seat.pod not in ended}
        self._settled &= {peer.engine for peer in self._listed}

    def answered(self, name: EngineId, by: EngineId) -> bool:
        """The engine `by` answered at the address of `name`; whether that changes who is spoken with."""
        seat = seat_of(name)
        listed = next((peer.engine for peer in self._listed if seat_of(peer.engine) == seat), None)
        # A pod that got the address of one that ended has a name of its own in the table, or will have.
        if listed is None or seat_of(by) != seat:
            return False
        self._answering[seat] = by
        self._settled.add(listed)
        return True

    def peers(self) -> tuple[Peer, ...]:
        """All engines of the table, with the processes' own names where they are known."""
        return tuple(
            peer.model_copy(update={"engine": self._answering.get(seat_of(peer.engine), peer.engine)})
            for peer in self._listed
        )

    def counterpart(self, listed: EngineId, rank: int | None) -> EngineId:
        """Of the pod that the table calls `listed`, the engine that goes with this data-parallel rank of one's own pod.

        By the name that its process gave itself; the table's, if none has answered.
        """
        ranks = self._ranks.get(listed, 1)
        name = listed if ranks == 1 else engine_of_rank(listed, (rank or 0) % ranks)
        return self._answering.get(seat_of(name), name)

    def lists(self, engine: EngineId) -> bool:
        """Whether the table has an engine of the same pod and rank."""
        return any(seat_of(peer.engine) == seat_of(engine) for peer in self._listed)

    def greeted(self) -> Mapping[EngineId, Peer]:
        """Whom to speak with, by name: the processes that are known, and whoever a name of the table may mean."""
        unknown = {peer.engine: peer for peer in self._listed if peer.engine not in self._settled}
        known = {peer.engine: peer for peer in self.peers() if peer.engine in self._answering.values()}
        return {**unknown, **known}
