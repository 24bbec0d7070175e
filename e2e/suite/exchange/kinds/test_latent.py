# SPDX-License-Identifier: Apache-2.0
"""A model with latent attention (MLA), whose KV is one vector per token and layer, and experts: DeepSeek-V3's form.

With two ranks each has all of that vector, and its own heads. vLLM turns prefix caching of such models off on CPUs without
AMX, so these engines have it turned on by a plugin, the plain one too (`e2e.engine.plugin`).
"""

import re
from collections.abc import Iterator

import pytest

from e2e.engine.latent_model import LATENT, ROPE, LatentShape, make_latent_model
from e2e.engine.unlocked import Unlocked, unlocked
from e2e.suite.exchange.kinds.talks import Exchanged, Kind, Talk, talk

BLOCK = 16
"""Tokens per KV block: all that vLLM's CPU kernel for such models can have."""


@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=pytest.mark.long)], ids=["one rank", "two ranks"])
def talked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talk]:
    folder = tmp_path_factory.mktemp("latent")
    make_latent_model(folder / "model")
    kind = Kind(
        folder / "model",
        block=BLOCK,
        arguments=("--attention-backend", "CPU_MLA"),
        environment=unlocked(Unlocked.MLA_PREFIX_CACHING),
        tensor_parallel=request.param,
    )
    with talk(kind, folder) as of:
        yield of


class TestLatentAttention(Exchanged):
    def test_a_layer_is_one_region_and_a_block_has_one_vector_per_token(self, talked: Talk) -> None:
        layers, floats = LatentShape().layers, 4
        for engine in (talked.prefill, talked.decode):
            found = re.findall(r"kv_registered .* regions=(\d+) block_bytes=(\d+)", engine.log.read_text())
            region = (str(layers), str(layers * BLOCK * (LATENT + ROPE) * floats))
            assert found == [region] * engine.spec.tensor_parallel
