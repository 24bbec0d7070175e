# SPDX-License-Identifier: Apache-2.0
"""The connector that vLLM loads: `{"kv_connector": "TandemConnector", "kv_connector_module_path": "tandem_connector.vllm.connector"}`.

vLLM makes one for the scheduler, in the engine's process, and one for each rank, in its worker's.
"""

import logging
import os
import socket
import time
from dataclasses import dataclass
from typing import Any, Final

import torch
from vllm.config import VllmConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorHandshakeMetadata,
    KVConnectorMetadata,
    KVConnectorRole,
    KVConnectorTransferResults,
    KVConnectorWorkerMetadata,
)
from vllm.distributed.parallel_state import get_tensor_model_parallel_rank
from vllm.platforms import current_platform
from vllm.v1.kv_cache_interface import KVCacheConfig
from vllm.v1.outputs import KVConnectorOutput

from tandem_connector.contract.messages import VERSION, Hello, MemoryKind
from tandem_connector.contract.types import EngineId
from tandem_connector.vllm.adapter import check_version
from tandem_connector.vllm.commands import Event
from tandem_connector.vllm.engine_process import EngineProcess
from tandem_connector.vllm.keyring import Keyring
from tandem_connector.vllm.keys import load_key
from tandem_connector.vllm.memory import Geometry
from tandem_connector.vllm.orders import StepOrders, StepReports
from tandem_connector.vllm.prometheus import TandemMetrics, TandemStats, stats_of
from tandem_connector.vllm.refusals import check_supported
from tandem_connector.vllm.scheduler import SchedulerSide
from tandem_connector.vllm.settings import ConnectorSettings
from tandem_connector.vllm.shape import fingerprint_of, shape_of
from tandem_connector.vllm.surroundings import Surroundings
from tandem_connector.vllm.worker import RankMemoryReport, WorkerSide

_log = logging.getLogger(__name__)
_IDLE_WAIT: Final = 30.0
"""Longest sleep in an empty step, in seconds, when all ranks can ring."""
_IDLE_WAIT_DEAF: Final = 0.003
"""And when one of them can't (it is on another machine), or other engines wait for this one's steps (data parallelism)."""


@dataclass
class StepMetadata(KVConnectorMetadata):  # type: ignore[misc]
    """`StepOrders` as vLLM carries them to the ranks."""

    orders: StepOrders


@dataclass
class StepReport(KVConnectorWorkerMetadata):  # type: ignore[misc]
    """`StepReports` as vLLM carries them back, from one rank or several."""

    reports: StepReports

    def aggregate(self, other: KVConnectorWorkerMetadata) -> "StepReport":
        """Both ranks'; what they mean together is decided where all of them are known."""
        if not isinstance(other, StepReport):
            raise TypeError(f"a report of {type(other).__name__}")
        return StepReport(self.reports.merged(other.reports))


@dataclass
class RankHandshake(KVConnectorHandshakeMetadata):  # type: ignore[misc]
    """What one rank tells the scheduler's side at the beginning."""

    memory: RankMemoryReport


class TandemConnector(KVConnectorBase_V1):  # type: ignore[misc] # vLLM has no types for others
    """The KV exchange; `docs/design/006-exchange-states.md` has the states of a want, `vllm/settings.py` the settings.

    Raises:
        VersionError: this is another vLLM.
        UnsupportedError: the engine's configuration has something that can't be exchanged.
        SettingsError: a setting is wrong.
        KeyFileError: the key can't be read.
    """

    requires_kv_delivery = False
    """A block that doesn't come is computed: nothing is handed off that could be lost."""

    def __init__(self, vllm_config: VllmConfig, role: KVConnectorRole, kv_cache_config: KVCacheConfig) -> None:
        check_version()
        _log_as_vllm_does()
        super().__init__(vllm_config, role, kv_cache_config)
        transfer = vllm_config.kv_transfer_config
        self._config, self._cache = vllm_config, kv_cache_config
        self._me = EngineId(transfer.engine_id)
        rank: int = vllm_config.parallel_config.data_parallel_index
        self._settings = ConnectorSettings.of(transfer.kv_connector_extra_config, os.environ, rank)
        self._block_size: int = vllm_config.cache_config.block_size
        self._scheduler: SchedulerSide | None = None
        self._worker: WorkerSide | None = None
        self._handshake: RankHandshake | None = None
        if self._settings.peers_file is None:
            return
        check_supported(shape_of(vllm_config, kv_cache_config))
        if role is KVConnectorRole.SCHEDULER:
            engine = EngineProcess()
            surroundings = Surroundings(self._me, self._settings, self._keyring(), engine)
            self._scheduler = SchedulerSide(
                self._me,
                self._settings,
                surroundings,
                block_size=self._block_size,
                hash_algorithm=vllm_config.cache_config.prefix_caching_hash_algo,
                end_within=vllm_config.shutdown_timeout,
                longest=vllm_config.model_config.max_model_len,
            )
            engine.watch(self._scheduler.arrived, surroundings.queued)
            engine.watch_outputs(self._scheduler.params_so_far)

    def _keyring(self) -> Keyring | None:
        path = self._settings.keys_file
        return (
            Keyring(load_key(path), time.monotonic(), overlap=self._settings.key_overlap) if path is not None else None
        )

    # -- scheduler's side -------------------------------------------------------------------------------------------

    def bind_kv_cache_manager(self, kv_cache_manager: Any) -> None:
        """See the base class."""
        super().bind_kv_cache_manager(kv_cache_manager)
        if self._scheduler is not None:
            self._scheduler.bind(kv_cache_manager)

    def set_xfer_handshake_metadata(self, metadata: dict[int, KVConnectorHandshakeMetadata]) -> None:
        """See the base class: `metadata` has a `RankHandshake` for each rank."""
        if self._scheduler is None:
            return
        ranks = [metadata[rank].memory for rank in sorted(metadata)]
        events = self._config.kv_events_config
        hello = Hello(
            version=VERSION,
            fingerprint=fingerprint_of(self._config, self._cache, tuple(rank.layout for rank in ranks)),
            blocks=self._cache.num_blocks,
            ranks=tuple(rank.memory for rank in ranks),
            answer=True,
            publishes=events is not None and bool(events.enable_kv_cache_events),
        )
        here = socket.gethostname()
        alone = self._config.parallel_config.data_parallel_size == 1
        all_ring = alone and all(rank.host == here for rank in ranks)
        _log.info("exchange_starts ranks=%d steps_at_one_time=%d", len(ranks), self._config.max_concurrent_batches)
        served = self._config.model_config.served_model_name
        self._scheduler.start(
            hello,
            block_bytes=sum(rank.block_bytes for rank in ranks),
            idle_wait=_IDLE_WAIT if all_ring else _IDLE_WAIT_DEAF,
            fabric=ranks[0].fabric,
            model=served if isinstance(served, str) else served[0],
        )

    def on_new_request(self, request: Any) -> None:
        """See the base class."""
        if self._scheduler is not None:
            self._scheduler.on_new_request(request)

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        """See the base class: what comes from elsewhere always comes between steps."""
        if self._scheduler is None:
            return 0, False
        tokens = self._scheduler.matched(request, num_computed_tokens)
        return tokens, bool(tokens)

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """See the base class."""
        if self._scheduler is not None and num_external_tokens:
            self._scheduler.allocated(request, blocks.blocks[0])

    def build_connector_meta(self, scheduler_output: Any) -> StepMetadata:
        """See the base class."""
        if self._scheduler is None:
            return StepMetadata(StepOrders.none())
        return StepMetadata(self._scheduler.steps.scheduled(scheduler_output))

    def update_connector_output(self, connector_output: KVConnectorOutput) -> None:
        """See the base class. vLLM looks at `finished_recving` after this, and may schedule these requests next."""
        report = connector_output.kv_connector_worker_meta
        if self._scheduler is not None and isinstance(report, StepReport):
            whole = self._scheduler.steps.ran(report.reports.ranks)
            connector_output.finished_recving = {*(connector_output.finished_recving or ()), *whole}

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:  # noqa: ARG002
        """See the base class: blocks are freed at once, what is written or read has references of its own."""
        return False, None if self._scheduler is None else self._scheduler.request_finished(request)

    def has_pending_push_work(self) -> bool:
        """See the base class."""
        return self._scheduler is not None and self._scheduler.steps.are_needed()

    def get_kv_connector_stats(self) -> TandemStats | None:
        """See the base class: the scheduler's side tells, ranks have nothing of their own."""
        return None if self._scheduler is None else stats_of(self._scheduler.news())

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> TandemStats:
        """See the base class."""
        return TandemStats(data=data or {})

    @classmethod
    def build_prom_metrics(
        cls,
        vllm_config: VllmConfig,
        metric_types: dict[Any, Any],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> TandemMetrics:
        """See the base class."""
        return TandemMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    # -- a rank's side ----------------------------------------------------------------------------------------------

    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        """See the base class."""
        if self._settings.peers_file is None:
            return
        device = next(iter(kv_caches.values())).device
        self._worker = WorkerSide(
            self._me,
            get_tensor_model_parallel_rank(),
            self._cache.num_blocks,
            self._settings.backends,
            prepare_thread=_choose_device,
            record_event=_no_event if device.type == "cpu" else _cuda_event,
        )
        self._handshake = RankHandshake(self._worker.register(kv_caches))

    def get_handshake_metadata(self) -> RankHandshake | None:
        """See the base class."""
        return self._handshake

    def handle_preemptions(self, kv_connector_metadata: KVConnectorMetadata) -> None:
        """The first thing of every step: what goes with it must be under way before the forward pass takes its time."""
        if self._worker is not None and isinstance(kv_connector_metadata, StepMetadata):
            self._worker.before_step(kv_connector_metadata.orders)

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """See the base class: nothing, peers write."""

    def wait_for_layer_load(self, layer_name: str) -> None:
        """See the base class: nothing, no forward pass begins before its blocks are there."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None:
        """See the base class: nothing, whole blocks are written."""

    def wait_for_save(self) -> None:
        """See the base class: the forward pass was launched."""
        if self._worker is not None:
            self._worker.after_forward()

    def get_transfer_results(self, finished_req_ids: set[str]) -> KVConnectorTransferResults:  # noqa: ARG002
        """See the base class."""
        loads = () if self._worker is None else self._worker.finished_loads()
        return KVConnectorTransferResults(finished_recving={load.request for load in loads})

    def get_block_ids_with_load_errors(self) -> set[int]:
        """See the base class."""
        loads = () if self._worker is None else self._worker.finished_loads()
        return {block for load in loads for block in load.lacking}

    def build_connector_worker_meta(self) -> StepReport | None:
        """See the base class."""
        return None if self._worker is None else StepReport(StepReports((self._worker.report(),)))

    # -- both -------------------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """See the base class."""
        if self._scheduler is not None:
            self._scheduler.close()
        if self._worker is not None:
            self._worker.close()


def _log_as_vllm_does() -> None:
    """There are only vLLM's own loggers set up; the root logger has warnings only, and no format."""
    ours, theirs = logging.getLogger("tandem_connector"), logging.getLogger("vllm")
    if not ours.handlers:
        ours.handlers, ours.propagate = list(theirs.handlers), not theirs.handlers
        ours.setLevel(theirs.getEffectiveLevel())


def _choose_device(geometry: Geometry) -> None:
    if geometry.kind is MemoryKind.VRAM:
        # By vLLM, which makes sure that the device's context is this thread's current one, as UCX needs it. torch's own call
        # may do nothing for a device that a thread has by default.
        current_platform.set_device(torch.device("cuda", geometry.device))


def _no_event() -> Event | None:
    return None


def _cuda_event() -> Event | None:
    # On the current stream of the rank's main thread: that of the forward pass, after it, in both of vLLM's model runners.
    event: Event = torch.cuda.Event()
    event.record()  # type: ignore[attr-defined]
    return event
