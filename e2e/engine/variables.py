# SPDX-License-Identifier: Apache-2.0
"""Environment variables and flags of engines: the demo's, the end-to-end tests' and the plain reference's, all on CPUs."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from e2e.engine.unlocked import unlocked

CPU_ENGINE_ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {
        # The model is a folder; nothing may wait for a hub.
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_DO_NOT_TRACK": "1",
        # vLLM compiles the function that ranks log-probabilities, also in eager mode, and the image has no compiler.
        "TORCHDYNAMO_DISABLE": "1",
        # GiB of KV cache. With an explicit size and eager mode vLLM skips its warm-up run.
        "VLLM_CPU_KVCACHE_SPACE": "1",
        # Shared memory does not cross from one pod to the next.
        "UCX_TLS": "tcp,self",
        # Block hashes are seeded with it: engines that exchange blocks must agree.
        "PYTHONHASHSEED": "0",
        **unlocked(),
    }
)
"""What an engine needs to run on a CPU, without what is particular to one engine (its address, its cores)."""

CPU_ENGINE_ARGUMENTS: tuple[str, ...] = ("--enforce-eager", "--dtype=float32", "--max-model-len=4096")
"""vLLM flags that go with them. Eager: compiling takes longer than everything that these engines compute. 32 bits: the
same token's KV differs in its last bits when it comes from a decode step or from a prefill, and with 16 bits that is enough
to choose another word now and then, which no comparison with a plain engine could tell from wrong KV."""


@dataclass(frozen=True)
class Device:
    """What all engines on a kind of device are started with."""

    arguments: tuple[str, ...]
    """vLLM's flags."""
    environment: Mapping[str, str]


CPU: Final = Device(CPU_ENGINE_ARGUMENTS, CPU_ENGINE_ENVIRONMENT)


def bound_to(cores: str) -> dict[str, str]:
    """The variables that keep an engine's OpenMP threads on `cores` ("0", "0-3", "0,2").

    Without them every engine on a machine takes all of its cores, and they wait for each other.
    """
    return {"VLLM_CPU_OMP_THREADS_BIND": cores}
