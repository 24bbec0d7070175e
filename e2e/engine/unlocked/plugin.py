# SPDX-License-Identifier: Apache-2.0
"""Has vLLM's CPU platform leave on what it turns off for every engine, where its code can do it all the same.

A plugin of vLLM's own kind (`vllm.general_plugins`), for tests and for trying things; it runs in the engine's processes.
What `platforms/cpu.py` of vLLM 0.32.0 turns off in `check_and_update_config`, whatever command line and environment say:

* processes that are forked. It has each started anew, and each imports for ten seconds. A fork takes over how many threads
  its parent's OpenMP has, and on which cores, which a new process reads from the environment: both are set before;
* prefix caching and chunked prefill of MLA models, unless the CPU has AMX. The reference backend has all that they need:
  `gather_mla_context_cache_cpu` in `_custom_ops.py`, `_merge_attn_states_torch` in `v1/attention/ops/merge_attn_states.py`;
* asynchronous scheduling ("not required on CPU"). Scheduler and executor know nothing of the device; only the model
  runner's output is made with CUDA's streams and events, which here stand for what has happened already.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from vllm.platforms.cpu import CpuPlatform
from vllm.utils.ompmultiprocessing import OMPProcessManager

from . import VARIABLE, Unlocked
from .forking import stop_listening


def register() -> None:
    """What vLLM calls in each of its processes, before it makes its configuration."""
    what = {Unlocked(name) for name in os.environ.get(VARIABLE, "").split(",") if name}
    CpuPlatform.check_and_update_config = _leaving_on(what, CpuPlatform.check_and_update_config)
    if Unlocked.FORK in what:
        os.register_at_fork(after_in_child=stop_listening)
        OMPProcessManager.configure_omp_envs = _forking_on_its_cores(OMPProcessManager.configure_omp_envs)
    if Unlocked.ASYNC_SCHEDULING in what:
        torch.cuda.Event = torch.cuda.Stream = torch.cuda.current_stream = _Done
        torch.cuda.stream = _on


def _leaving_on(what: set[Unlocked], turn_off: Callable[[Any], None]) -> Callable[[Any], None]:
    def check_and_update_config(config: Any) -> None:
        scheduling, cache = config.scheduler_config, config.cache_config
        asked = scheduling.enable_chunked_prefill, scheduling.max_num_batched_tokens, cache.enable_prefix_caching
        turn_off(config)
        if Unlocked.MLA_PREFIX_CACHING in what:
            scheduling.enable_chunked_prefill, scheduling.max_num_batched_tokens, cache.enable_prefix_caching = asked
        if Unlocked.ASYNC_SCHEDULING in what:
            scheduling.async_scheduling = True
        if Unlocked.FORK in what:
            os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"

    return staticmethod(check_and_update_config)


def _forking_on_its_cores(configure: Callable[..., AbstractContextManager[None]]) -> Callable[..., Any]:
    @contextmanager
    def configure_omp_envs(self: Any, rank: int, local_rank: int) -> Iterator[None]:
        before = os.sched_getaffinity(0)
        # vLLM's worker says that a pool that was used must not be forked, and that one which was only sized may be.
        if not self.skip_setup:
            torch.set_num_threads(len(self.cpu_lists[local_rank]))
            os.sched_setaffinity(0, self.cpu_lists[local_rank])
        try:
            with configure(self, rank, local_rank):
                yield
        finally:
            os.sched_setaffinity(0, before)

    return configure_omp_envs


class _Done:
    """An event that has happened, and a stream that is always empty."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def record(self, *_: Any) -> None: ...

    def synchronize(self) -> None: ...

    def wait_stream(self, _: Any) -> None: ...


@contextmanager
def _on(_: Any) -> Iterator[None]:
    yield
