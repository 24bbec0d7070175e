# SPDX-License-Identifier: Apache-2.0
"""The small model of DeepSeek-V3's form, and the LoRA adapter: their bytes depend on the seed alone, and their parts fit."""

import json
from hashlib import sha256
from pathlib import Path

from e2e.engine.adapter import RANK, make_adapter
from e2e.engine.latent_model import LATENT, ROPE, LatentShape, make_latent_model
from e2e.engine.model import Shape

SMALL = LatentShape(
    hidden=64, layers=2, heads=2, query_latent=64, plain=32, value=32, intermediate=64, experts=2, chosen=1
)
ADAPTED = Shape(hidden=64, layers=1, heads=2, kv_heads=1, head=32, intermediate=64)


def digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()


def shapes(file: Path) -> dict[str, list[int]]:
    raw = file.read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    return {name: tensor["shape"] for name, tensor in header.items() if name != "__metadata__"}


def test_the_same_seed_makes_the_same_bytes_and_another_makes_others(tmp_path: Path) -> None:
    for name, seed in (("one", 7), ("two", 7), ("three", 8)):
        make_latent_model(tmp_path / name, seed, SMALL)
        make_adapter(tmp_path / name, ADAPTED, seed)
    for file in ("model.safetensors", "adapter_model.safetensors"):
        one, two, three = (digest(tmp_path / name / file) for name in ("one", "two", "three"))
        assert one == two != three


def test_a_token_keeps_one_vector_that_all_heads_share(tmp_path: Path) -> None:
    make_latent_model(tmp_path, shape=SMALL)
    found = shapes(tmp_path / "model.safetensors")
    attention = "model.layers.1.self_attn"
    assert found[f"{attention}.kv_a_proj_with_mqa.weight"] == [LATENT + ROPE, SMALL.hidden]
    assert found[f"{attention}.kv_b_proj.weight"] == [SMALL.heads * (SMALL.plain + SMALL.value), LATENT]


def test_layers_after_the_first_ones_have_experts(tmp_path: Path) -> None:
    make_latent_model(tmp_path, shape=SMALL)
    found = shapes(tmp_path / "model.safetensors")
    assert {int(name.split(".")[2]) for name in found if ".experts." in name} == {1}
    assert {int(name.split(".")[5]) for name in found if ".experts." in name} == set(range(SMALL.experts))


def test_an_adapters_matrices_fit_the_projections_that_it_names(tmp_path: Path) -> None:
    make_adapter(tmp_path, ADAPTED)
    found = shapes(tmp_path / "adapter_model.safetensors")
    targets = json.loads((tmp_path / "adapter_config.json").read_text())["target_modules"]
    prefix = "base_model.model.model.layers.0.self_attn"
    assert {name.split(".")[-3] for name in found} == set(targets)
    assert found[f"{prefix}.v_proj.lora_A.weight"] == [RANK, ADAPTED.hidden]
    assert found[f"{prefix}.v_proj.lora_B.weight"] == [ADAPTED.kv_heads * ADAPTED.head, RANK]
