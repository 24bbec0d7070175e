# SPDX-License-Identifier: Apache-2.0
"""One engine as a process of this machine, and what it says of itself."""

import json
import os
import secrets
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.account import EngineAccount
from e2e.engine.environment import EngineEnvironment
from e2e.engine.serve import plain_engine
from e2e.engine.variables import CPU, Device
from e2e.exchange.ports import Ports
from tandem_connector.asking.wire import RANK_HEADER
from tandem_connector.contract.environment import API_KEY, PEERS_FILE, RANK_SUFFIX, ROLE, STATUS_FILE
from tandem_connector.contract.peers import Address, Parallelism, Peer
from tandem_connector.contract.types import EngineId, EngineState, Role, engine_of_rank, pod_of
from tandem_connector.vllm.journal import read_journal
from tandem_connector.vllm.settings import HOST_VARIABLE, PORT_VARIABLE

BLOCK_SIZE = 32
"""Tokens per KV block, of all engines here."""
END_WITHIN = 30.0
# vLLM's NixlConnector binds every CPU engine to the last core of each NUMA node, so that two engines would share one core.
# It leaves them where they are when it finds no nodes. Needs root.
_WITHOUT_NUMA_NODES = (
    *("unshare", "--mount", "sh", "-c"),
    'mount -t tmpfs none /sys/devices/system/node && exec "$@"',
    "sh",
)
_ROOT = Path(__file__).parents[2]


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
    data_parallel: int = 1
    """Ranks behind its one server, each an engine of its own to peers."""
    device: Device = CPU
    upstream: Mapping[str, Any] | None = None
    """For an engine without a role: vLLM's NixlConnector instead of no connector, with this `kv_connector_extra_config`."""
    module: str = "tandem_connector.vllm.connector"
    """Where the connector's class is; `e2e.exchange.window.MODULE` has one with windows in it."""
    listed_start: str | None = None
    """What peer tables call the start of its process, which an operator doesn't know by its own name. None: as it does itself."""


class Engine:
    """A running engine."""

    def __init__(
        self,
        name: str,
        spec: EngineSpec,
        environment: EngineEnvironment,
        model: Path,
        folder: Path,
        *,
        ports: Ports,
        pod: str | None = None,
    ) -> None:
        """Start it; `folder` takes its log, its journal and its peer table. `pod` stands for its pod's UID: its name, if None."""
        self.name = name
        self.spec = spec
        self.id = EngineId(f"{pod or name}-{secrets.token_hex(4)}")
        self.ports = ports
        self.port = ports.http
        self.http_port = ports.http
        """Where peers are told that it answers HTTP."""
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / f"{self.id}.log"
        self.journal = folder / f"{self.id}.journal"
        self.peers_file = folder / f"{self.id}-peers.json"
        self.status_file = folder / f"{self.id}-status.json"
        command = plain_engine(
            environment,
            model,
            port=self.port,
            cores=spec.core,
            more_arguments=[*self._arguments(), *spec.arguments],
            device=spec.device,
        )
        arguments = command.arguments if spec.upstream is None else (*_WITHOUT_NUMA_NODES, *command.arguments)
        with self.log.open("w") as output:
            self._process = subprocess.Popen(
                arguments,
                env={**os.environ, **command.environment, **self._variables(), **spec.environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _arguments(self) -> Sequence[str]:
        ranks = ("--data-parallel-size", str(self.spec.data_parallel)) if self.spec.data_parallel > 1 else ()
        common = ("--block-size", str(BLOCK_SIZE), "--prefix-caching-hash-algo", "sha256_cbor", *ranks)
        connector = self._connector()
        if connector is None:
            return (*common, "--enable-prompt-tokens-details")
        transfer = {"kv_role": "kv_both", "engine_id": self.id, "kv_load_failure_policy": "recompute", **connector}
        return (*common, "--enable-prompt-tokens-details", "--kv-transfer-config", json.dumps(transfer))

    def _connector(self) -> Mapping[str, Any] | None:
        if self.spec.upstream is not None:
            return {"kv_connector": "NixlConnector", "kv_connector_extra_config": self.spec.upstream}
        if self.spec.role is None:
            return None
        return {
            "kv_connector": "TandemConnector",
            "kv_connector_module_path": self.spec.module,
            "kv_connector_extra_config": {"journal": str(self.journal), **self.spec.extra},
        }

    def _variables(self) -> Mapping[str, str]:
        # As in pods. With vLLM's 5 s, an engine that was frozen closes connections on which a request has come meanwhile.
        server = {"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "75"}
        if self._connector() is None:
            return server
        side_channel = {
            **server,
            HOST_VARIABLE: "127.0.0.1",
            PORT_VARIABLE: str(self.ports.side),
            # Other interfaces come and go with the clusters that other tests start.
            "UCX_NET_DEVICES": "lo",
        }
        if self.spec.role is None:
            return side_channel
        return {
            **side_channel,
            "PYTHONPATH": f"{_ROOT / 'connector' / 'src'}:{_ROOT}",
            ROLE: self.spec.role.value,
            PEERS_FILE: str(self.peers_file),
            STATUS_FILE: str(self.status_file),
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
        start = self.spec.listed_start
        return Peer(
            engine=self.id if start is None else EngineId(f"{pod_of(self.id)}-{start}"),
            pod=self.name,
            role=self.spec.role,
            state=state,
            address=Address(host="127.0.0.1", http_port=self.http_port, side_channel_port=self.ports.side),
            parallelism=Parallelism(tensor=self.spec.tensor_parallel, data=self.spec.data_parallel),
            revision="same",
        )

    def put_table(self, content: str) -> None:
        """Make this the content of its peer table's file, at once and as a whole."""
        fresh = self.peers_file.with_suffix(".new")
        fresh.write_text(content)
        fresh.replace(self.peers_file)

    @property
    def ranks(self) -> Sequence[int | None]:
        """Its data-parallel ranks; None of an engine that is alone."""
        return range(self.spec.data_parallel) if self.spec.data_parallel > 1 else (None,)

    @property
    def ids(self) -> tuple[EngineId, ...]:
        """How its ranks name themselves to peers."""
        return tuple(self.id if rank is None else engine_of_rank(self.id, rank) for rank in self.ranks)

    def post(self, path: str, body: Any = None, timeout: float = 60.0, rank: int | None = None) -> Any:
        """The JSON that it answers; None for an empty answer.

        Args:
            path: of the URL.
            body: what to send as JSON.
            timeout: seconds.
            rank: the data-parallel rank that is to answer; None leaves that to the server.

        Raises:
            urllib.error.HTTPError: it answered with an error.
        """
        data = b"" if body is None else json.dumps(body).encode()
        key = self.spec.environment.get(API_KEY)
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        headers |= {RANK_HEADER: str(rank)} if rank is not None else {}
        request = urllib.request.Request(self.url + path, data, headers, method="POST")
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

    def turns(self, rank: int | None = None) -> list[dict[str, Any]]:
        """The accounts of the turns that have ended here, the connector's own, the first one first; of one rank, or of all."""
        ranks = self.ranks if rank is None else (rank,)
        journals = (self.of_rank(self.journal, each) for each in ranks)
        entries = (entry for each in journals if each.exists() for entry in read_journal(each) if entry.kind == "turn")
        return [json.loads(bytes(entry.content)) for entry in sorted(entries, key=lambda entry: entry.at)]

    @staticmethod
    def of_rank(file: Path, rank: int | None) -> Path:
        """A data-parallel rank's own file beside the one of the first."""
        return file.with_name(f"{file.name}{RANK_SUFFIX}{rank}") if rank else file

    def cpu_seconds(self) -> float:
        """CPU time that its processes have used."""
        return sum(_cpu_seconds(pid) for pid in self.processes())

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes."""
        for pid in self.processes():
            with _gone_is_fine():
                os.kill(pid, number)

    def kill(self) -> None:
        """End it at once, as a crash of the machine would."""
        self.signal(signal.SIGKILL)
        self._process.wait()

    def end(self) -> int:
        """Tell it to end, as the kubelet does: its first process only. Its exit status, when it has.

        Raises:
            subprocess.TimeoutExpired: it hasn't for long.
        """
        self._process.terminate()
        return self._process.wait(END_WITHIN)

    def stop(self) -> None:
        """End it in order; nothing when it has ended."""
        if self.alive:
            self._process.terminate()
            try:
                self._process.wait(END_WITHIN)
            except subprocess.TimeoutExpired:
                self.kill()
        for pid in self.processes():
            with _gone_is_fine():
                os.kill(pid, signal.SIGKILL)

    def processes(self) -> list[int]:
        """Process ids of all that it consists of: the session that it leads."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with _gone_is_fine():
                    if os.getsid(int(entry.name)) == self._process.pid:
                        found.append(int(entry.name))
        return found


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
