# SPDX-License-Identifier: Apache-2.0
"""What engines on one GPU are started with, and the environment that they run in."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.cache import BuildError, built_once, key_of
from e2e.engine.environment import EngineEnvironment, build_environment
from e2e.engine.variables import CPU, Device
from e2e.exchange.likeness import ROUNDING
from e2e.uv import uv_program

_PROJECT = Path(__file__).parent
CUDA: Final = Device(
    (
        # Three bits more than bfloat16 has: on a CPU, log-probabilities of the small model differ by 0.05 at most when a prompt
        # is computed in other parts, with bfloat16 by 0.5, and with another first block by 11.
        "--dtype=float16",
        "--max-model-len=4096",
        "--max-num-seqs=8",
        # FlashInfer's kernels, for attention and for sampling, would be compiled first, by a CUDA toolkit that may not be there.
        "--attention-backend=FLASH_ATTN",
        # Of the GPU's memory, for each of the engines that share it; and how much of that is KV, said outright, because
        # vLLM would take what its neighbour takes meanwhile for its own.
        "--gpu-memory-utilization=0.3",
        f"--kv-cache-memory-bytes={1 << 30}",
    ),
    {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_DO_NOT_TRACK": "1",
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        "PYTHONHASHSEED": "0",
        # Between processes of one machine. Without `cuda_ipc` KV goes through host memory.
        "UCX_TLS": "cuda_ipc,cuda_copy,sm,tcp,self",
    },
)
"""Everything else is vLLM's default there, asynchronous scheduling and CUDA graphs among it."""


@dataclass(frozen=True)
class Kind:
    """A kind of device, and what is to be expected of it."""

    device: Device
    memory: str
    """NIXL's name of the memory that KV is in."""
    steps_at_one_time: int
    """Two with asynchronous scheduling."""
    number_bytes: int
    """Of one number of KV."""
    starts_together: bool
    """The engines start at the same time. On a GPU one after the other: the second one finds what the first one has compiled,
    and the free memory, which vLLM looks at, stands still."""
    rounding: float = ROUNDING
    """See `e2e.exchange.likeness`."""


KINDS: Final = {
    "cuda": Kind(CUDA, "VRAM", steps_at_one_time=2, number_bytes=2, starts_together=False, rounding=0.2),
    "cpu": Kind(CPU, "DRAM", steps_at_one_time=1, number_bytes=4, starts_together=True),
}


def environment_for(kind: str, python: Path | None) -> EngineEnvironment:
    """The environment of that interpreter, or one with the locked wheels from the package index, made once.

    Raises:
        BuildError: it can't be made.
    """
    if python is not None:
        return EngineEnvironment(python.absolute().parent.parent)
    if kind == "cpu":
        return build_environment()
    key = key_of(_PROJECT / "pyproject.toml", _PROJECT / "uv.lock")
    return EngineEnvironment(built_once(f"cuda-engine-{key}", _install))


def _install(root: Path) -> None:
    print("installing the CUDA engine environment: 4 GB to download, once per lock file", flush=True)
    inherited = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    for arguments in (("venv", "--relocatable", root), ("sync", "--frozen", "--project", _PROJECT)):
        command = [uv_program(), *map(str, arguments)]
        environment = inherited | {"UV_PROJECT_ENVIRONMENT": str(root)}
        if subprocess.run(command, env=environment, check=False).returncode:
            raise BuildError(f"the CUDA engine environment could not be built: this failed: {' '.join(command)}")
