# SPDX-License-Identifier: Apache-2.0
"""A KV cache of 8-bit floats: a block has a quarter of the bytes, and goes as it is."""

import re
from collections.abc import Iterator

import pytest

from e2e.engine.instructions import keeps_kv_in_8_bits
from e2e.engine.model import Shape, make_model
from e2e.suite.exchange.kinds.talks import Exchanged, Kind, Talk, talk

pytestmark = [
    pytest.mark.skipif(not keeps_kv_in_8_bits(), reason="vLLM's KV in 8 bits needs a CPU with AVX-512 or AMX"),
    pytest.mark.long,
]

BLOCK = 32
SHAPE = Shape()


@pytest.fixture(scope="module", params=["fp8_e4m3", "fp8_e5m2"])
def talked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talk]:
    folder = tmp_path_factory.mktemp("quantized")
    make_model(folder / "model", shape=SHAPE)
    kind = Kind(folder / "model", block=BLOCK, arguments=("--kv-cache-dtype", request.param), environment={})
    with talk(kind, folder) as of:
        yield of


class TestKvInEightBits(Exchanged):
    def test_a_number_is_one_byte(self, talked: Talk) -> None:
        keys_and_values = 2
        of_block = SHAPE.layers * keys_and_values * BLOCK * SHAPE.kv_heads * SHAPE.head
        for engine in (talked.prefill, talked.decode):
            found = re.search(r"kv_registered .* block_bytes=(\d+)", engine.log.read_text())
            assert found is not None
            assert int(found[1]) == of_block
