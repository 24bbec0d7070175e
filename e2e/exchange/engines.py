# SPDX-License-Identifier: Apache-2.0
"""Prefill and decode engines as processes of this machine, and the peer tables that an operator would write for them."""

import json
import os
import secrets
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from e2e.account import EngineAccount
from e2e.cluster.progress import wait_until
from e2e.engine.environment import EngineEnvironment
from e2e.engine.serve import plain_engine
from tandem_connector.contract.environment import PEERS_FILE, ROLE
from tandem_connector.contract.peers import Address, Parallelism, Peer, PeerTable
from tandem_connector.contract.types import EngineId, EngineState, Generation, Role
from tandem_connector.vllm.journal import Journal, read_journal
from tandem_connector.vllm.settings import HOST_VARIABLE, PORT_VARIABLE

BLOCK_SIZE = 32
"""Tokens per KV block, of all engines here."""
START_WITHIN = 300.0
END_WITHIN = 30.0
_CONNECTOR = Path(__file__).parents[2] / "connector" / "src"
__all__ = ["BLOCK_SIZE", "Engine", "EngineSpec", "Engines", "Journal", "free_port", "running"]


@dataclass(frozen=True)
class EngineSpec:
    """How one engine is to be started."""

    role: Role | None
    """None: a plain engine, without the connector."""
    core: str = "0"
    """Which cores its computation is bound to. All engines that are compared must have as many."""
    arguments: tuple[str, ...] = ()
    """More flags of vLLM."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """More of `kv_connector_extra_config`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    tensor_parallel: int = 1


class Engine:
    """A running engine."""

    def __init__(self, name: str, spec: EngineSpec, environment: EngineEnvironment, model: Path, folder: Path) -> None:
        """Start it; `folder` takes its log, its journal and its peer table."""
        self.name = name
        self.spec = spec
        self.id = EngineId(f"{name}-{secrets.token_hex(4)}")
        self.port, self._side_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / f"{self.id}.log"
        self.journal = folder / f"{self.id}.journal"
        self.peers_file = folder / f"{self.id}-peers.json"
        command = plain_engine(
            environment, model, port=self.port, cores=spec.core, more_arguments=[*self._arguments(), *spec.arguments]
        )
        with self.log.open("w") as output:
            self._process = subprocess.Popen(
                command.arguments,
                env={**os.environ, **command.environment, **self._variables(), **spec.environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _arguments(self) -> Sequence[str]:
        common = ("--block-size", str(BLOCK_SIZE), "--prefix-caching-hash-algo", "sha256_cbor")
        if self.spec.role is None:
            return common
        transfer = {
            "kv_connector": "TandemConnector",
            "kv_connector_module_path": "tandem_connector.vllm.connector",
            "kv_role": "kv_both",
            "engine_id": self.id,
            "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": {"journal": str(self.journal), **self.spec.extra},
        }
        return (*common, "--enable-prompt-tokens-details", "--kv-transfer-config", json.dumps(transfer))

    def _variables(self) -> Mapping[str, str]:
        if self.spec.role is None:
            return {}
        return {
            "PYTHONPATH": str(_CONNECTOR),
            ROLE: self.spec.role.value,
            PEERS_FILE: str(self.peers_file),
            HOST_VARIABLE: "127.0.0.1",
            PORT_VARIABLE: str(self._side_port),
            # Other interfaces come and go with the clusters that other tests start.
            "UCX_NET_DEVICES": "lo",
            # Resets and other things that tests ask for over HTTP.
            "VLLM_SERVER_DEV_MODE": "1",
        }

    def ready(self) -> bool:
        """Whether it answers.

        Raises:
            AssertionError: it has ended.
        """
        status = self._process.poll()
        if status is not None:
            raise AssertionError(f"engine {self.name} ended with {status}: see {self.log}")
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                return True
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process.poll() is None

    def as_peer(self, state: EngineState = EngineState.READY) -> Peer:
        """What other engines' tables say of it.

        Raises:
            ValueError: it is a plain engine.
        """
        if self.spec.role is None:
            raise ValueError(f"{self.name} is no peer of anybody")
        return Peer(
            engine=self.id,
            pod=self.name,
            role=self.spec.role,
            state=state,
            address=Address(host="127.0.0.1", http_port=self.port, side_channel_port=self._side_port),
            parallelism=Parallelism(tensor=self.spec.tensor_parallel),
            revision="same",
        )

    def post(self, path: str, body: Any = None, timeout: float = 60.0) -> Any:
        """The JSON that it answers; None for an empty answer.

        Raises:
            urllib.error.HTTPError: it answered with an error.
        """
        data = b"" if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method="POST")
        with urllib.request.urlopen(request, timeout=timeout) as response:
            content = response.read()
        return json.loads(content) if content else None

    def metrics(self) -> str:
        """Its metrics in Prometheus' text form."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as response:
            content: bytes = response.read()
        return content.decode()

    def account(self) -> EngineAccount:
        """What vLLM itself counted."""
        return EngineAccount.parse(self.metrics())

    def turns(self) -> list[dict[str, Any]]:
        """The accounts of the turns that have ended here, the connector's own, the first one first."""
        if not self.journal.exists():
            return []
        return [json.loads(bytes(entry.content)) for entry in read_journal(self.journal) if entry.kind == "turn"]

    def cpu_seconds(self) -> float:
        """CPU time that its processes have used."""
        return sum(_cpu_seconds(pid) for pid in self._group())

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes."""
        for pid in self._group():
            with _gone_is_fine():
                os.kill(pid, number)

    def kill(self) -> None:
        """End it at once, as a crash of the machine would."""
        self.signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """End it in order; nothing when it has ended."""
        if self.alive:
            self._process.terminate()
            try:
                self._process.wait(END_WITHIN)
            except subprocess.TimeoutExpired:
                self.kill()
        for pid in self._group():
            with _gone_is_fine():
                os.kill(pid, signal.SIGKILL)

    def _group(self) -> list[int]:
        """Its processes: those of the session that it leads."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with _gone_is_fine():
                    if os.getsid(int(entry.name)) == self._process.pid:
                        found.append(int(entry.name))
        return found


class Engines:
    """Engines that know each other."""

    def __init__(self, environment: EngineEnvironment, model: Path, folder: Path, exits: ExitStack) -> None:
        self._environment = environment
        self._model = model
        self._folder = folder
        self._exits = exits
        self._generation = 0
        self._engines: dict[str, Engine] = {}

    def start(self, **specs: EngineSpec) -> Self:
        """Start these, wait until all answer, and tell all of each other."""
        for name, spec in specs.items():
            engine = Engine(name, spec, self._environment, self._model, self._folder)
            self._exits.callback(engine.stop)
            self._engines[name] = engine
        for name in specs:
            wait_until(f"engine {name}", self._engines[name].ready, START_WITHIN, every=0.5)
        self.tell()
        return self

    def __getitem__(self, name: str) -> Engine:
        return self._engines[name]

    def tell(self, **states: EngineState | None) -> None:
        """Write all peer tables anew: engines that run are ready, but those in `states` (None: not in any table)."""
        self._generation += 1
        peers = [
            engine.as_peer(state)
            for name, engine in self._engines.items()
            if engine.spec.role is not None and engine.alive
            for state in (states.get(name, EngineState.READY),)
            if state is not None
        ]
        for engine in self._engines.values():
            if engine.spec.role is not None:
                others = tuple(peer for peer in peers if peer.role is engine.spec.role.other)
                table = PeerTable.of(Generation(self._generation), others)
                fresh = engine.peers_file.with_suffix(".new")
                fresh.write_text(table.to_annotation())
                fresh.replace(engine.peers_file)

    def wait_for_connections(self) -> None:
        """Until each engine has joined each of its peers."""
        for engine in self._engines.values():
            peers = [
                other.id
                for other in self._engines.values()
                if engine.spec.role is not None and other.alive and other.spec.role is engine.spec.role.other
            ]

            def joined(engine: Engine = engine, peers: Sequence[str] = tuple(peers)) -> bool:
                log = engine.log.read_text(errors="replace")
                return all(f"writer_peer_added peer={peer}" in log for peer in peers)

            # The ranks connect with the next step, so this is not before they have.
            if peers and engine.alive:
                wait_until(f"{engine.name} to join its peers", joined, 60.0)


@contextmanager
def running(environment: EngineEnvironment, model: Path, folder: Path) -> Iterator[Engines]:
    """No engines yet; those that are started end with the context."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as exits:
        yield Engines(environment, model, folder, exits)


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _cpu_seconds(pid: int) -> float:
    with _gone_is_fine():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    """For what is said of a process that may have ended meanwhile."""
    with suppress(ProcessLookupError, FileNotFoundError, PermissionError):
        yield
