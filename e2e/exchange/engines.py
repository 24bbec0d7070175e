# SPDX-License-Identifier: Apache-2.0
"""Prefill and decode engines as processes of this machine, and the peer tables that an operator would write for them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Self

from e2e.cluster.progress import wait_until
from e2e.engine.environment import EngineEnvironment
from e2e.exchange.engine import BLOCK_SIZE, Engine, EngineSpec
from e2e.exchange.ports import Ports
from tandem_connector.contract.peers import MAX_GONE, Drain, Peer, PeerTable
from tandem_connector.contract.types import EngineState, Generation, pod_of

START_WITHIN: Final = 300.0
"""Seconds."""
__all__ = ["BLOCK_SIZE", "Engine", "EngineSpec", "Engines", "running"]


class Engines:
    """Engines that know each other."""

    def __init__(self, environment: EngineEnvironment, model: Path, folder: Path, exits: ExitStack) -> None:
        self._environment = environment
        self._model = model
        self._folder = folder
        self._exits = exits
        self._generation = 0
        self._engines: dict[str, Engine] = {}
        self._replaced: list[Engine] = []
        self._successors: dict[str, str] = {}
        """Of engines that drain, or did: whoever was in a table stays there for as long as it runs."""

    def start(self, **specs: EngineSpec) -> Self:
        """Start these, wait until all answer, and tell all of each other."""
        for name, spec in specs.items():
            self.begin(name, spec)
        return self._tell_when_ready(specs)

    def begin(self, name: str, spec: EngineSpec, ports: Ports | None = None) -> Engine:
        """Start this one, which answers later; `tell` tells of it when it is called.

        At the `ports` of one that ended it is another process in the same pod; elsewhere it is in another pod.
        """
        before, pod = self._engines.get(name), None
        if before is not None:
            self._replaced.append(before)
            pod = pod_of(before.id) if ports == before.ports else f"{name}.{len(self._replaced)}"
        ports = ports or Ports.free(spec.data_parallel)
        engine = Engine(name, spec, self._environment, self._model, self._folder, ports=ports, pod=pod)
        self._exits.callback(engine.stop)
        self._engines[name] = engine
        return engine

    def replace(self, name: str) -> Self:
        """End this engine at once, start another process at its address, and tell all of it when it answers."""
        before = self._engines[name]
        before.kill()
        self.begin(name, before.spec, before.ports)
        return self._tell_when_ready((name,))

    def _tell_when_ready(self, names: Iterable[str]) -> Self:
        for name in names:
            wait_until(f"engine {name}", self._engines[name].ready, START_WITHIN, every=0.5)
        self.tell()
        return self

    def __getitem__(self, name: str) -> Engine:
        return self._engines[name]

    def tell(self, **states: EngineState | None) -> None:
        """Write all peer tables anew: engines that run are ready, but those in `states` (None: not in any table)."""
        self._tell({}, states)

    def drain(self, **successors: str) -> None:
        """Tell all that these engines drain, each to its successor, which it knows from now on, and which knows it."""
        self._successors.update(successors)
        drains = {name: Drain(successor=self._engines[successor].id) for name, successor in successors.items()}
        self._tell(drains, dict.fromkeys(successors, EngineState.DRAINING))

    def tell_one(self, engine: Engine, peers: Sequence[Peer], gone: Iterable[str] = ()) -> None:
        """Write the peer table of one engine anew: these are its peers, and these pods are gone."""
        self._generation += 1
        engine.put_table(PeerTable.of(self.generation, tuple(peers), gone=gone).to_annotation())

    def _tell(self, drains: Mapping[str, Drain], states: Mapping[str, EngineState | None]) -> None:
        self._generation += 1
        for name, engine in self._engines.items():
            if engine.spec.role is not None:
                self._write(engine, self.peers_of(engine, **states), drains.get(name))

    def _write(self, engine: Engine, peers: Sequence[Peer], drain: Drain | None = None) -> None:
        engine.put_table(self.table_of(peers, drain).to_annotation())

    def table_of(self, peers: Sequence[Peer], drain: Drain | None = None) -> PeerTable:
        """A table of these peers, of the present generation. Pods whose engines have ended are gone, in every table from then on."""
        gone = {
            pod_of(engine.id): None
            for engine in (*self._replaced, *self._engines.values())
            if engine.spec.role is not None and not engine.alive
        }
        listed = {pod_of(peer.engine) for peer in peers}
        return PeerTable.of(
            self.generation, tuple(peers), drain, [pod for pod in gone if pod not in listed][-MAX_GONE:]
        )

    def tell_only(self, engine: Engine, *peers: Peer, gone: Iterable[str] = ()) -> None:
        """Write the peer table of this engine anew: these, and nobody else, and that these pods are gone."""
        self._generation += 1
        engine.put_table(PeerTable.of(self.generation, peers, gone=gone).to_annotation())

    @property
    def generation(self) -> Generation:
        """Of the tables that were written last."""
        return Generation(self._generation)

    def peers_of(self, engine: Engine, **states: EngineState | None) -> tuple[Peer, ...]:
        """Those of the other role, its successor and those that it is one of, as `tell` tells of them.

        Raises:
            ValueError: it is a plain engine.
        """
        role = engine.as_peer().role
        return tuple(
            other.as_peer(state)
            for name, other in self._engines.items()
            if other.spec.role is not None and other.alive
            if other.spec.role is role.other or self._are_successors(engine.name, name)
            for state in (states.get(name, EngineState.READY),)
            if state is not None
        )

    def _are_successors(self, one: str, other: str) -> bool:
        return self._successors.get(one) == other or self._successors.get(other) == one

    def wait_for_connections(self, *names: str) -> None:
        """Until each of these engines has joined each of its peers among them; all, if none are named."""
        chosen = [self._engines[name] for name in names or self._engines]
        for engine in chosen:
            peers = [
                peer
                for other in chosen
                if engine.spec.role is not None and other.alive and other.spec.role is engine.spec.role.other
                for peer in other.ids
            ]

            def joined(engine: Engine = engine, peers: Sequence[str] = tuple(peers)) -> bool:
                log = engine.log.read_text(errors="replace")
                return all(log.count(f"writer_peer_added peer={peer}") >= len(engine.ranks) for peer in peers)

            # The ranks connect with the next step, so this is not before they have.
            if peers and engine.alive:
                wait_until(f"{engine.name} to join its peers", joined, 60.0)


@contextmanager
def running(environment: EngineEnvironment, model: Path, folder: Path) -> Iterator[Engines]:
    """No engines yet; those that are started end with the context."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as exits:
        yield Engines(environment, model, folder, exits)
