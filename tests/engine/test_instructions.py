# SPDX-License-Identifier: Apache-2.0
import pytest

from e2e.engine.instructions import keeps_kv_in_8_bits


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        ("fpu sse4_2 avx2 fma", False),
        ("fpu avx2 avx512f avx512dq avx512bw avx512vl", True),
        ("fpu avx2 avx512f", False),
        ("fpu avx2 amx_bf16 amx_tile amx_int8", True),
    ],
)
def test_kv_in_8_bits_needs_wide_vectors_or_tiles(flags: str, kept: bool) -> None:
    cpuinfo = f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t: spectre_v1\n"

    assert keeps_kv_in_8_bits(cpuinfo) is kept


def test_a_cpu_without_flags_keeps_none() -> None:
    assert not keeps_kv_in_8_bits("processor\t: 0\n")
