# SPDX-License-Identifier: Apache-2.0
"""Which instructions of this machine's CPU an engine can use."""

from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
# What torch asks for before it says that AVX-512 is there, and AMX beside it.
_AVX_512 = {"avx512f", "avx512dq", "avx512bw", "avx512vl"}
_AMX = {"amx_tile"}


def keeps_kv_in_8_bits(cpuinfo: str | None = None) -> bool:
    """Whether vLLM's CPU backend can keep the KV cache in 8-bit floats here: it needs AVX-512 or AMX.

    Args:
        cpuinfo: the text of `/proc/cpuinfo`; default: this machine's.

    Source: `vllm/v1/attention/backends/cpu_attn.py` of vLLM 0.32, where it refuses.
    """
    text = _CPUINFO.read_text() if cpuinfo is None else cpuinfo
    flags = {flag for line in text.splitlines() if line.startswith("flags") for flag in line.partition(":")[2].split()}
    return flags >= _AVX_512 or flags >= _AMX
