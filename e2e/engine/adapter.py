# SPDX-License-Identifier: Apache-2.0
"""A small random LoRA adapter for the small Qwen3 (`e2e.engine.model`), in the form that PEFT writes."""

import json
from collections.abc import Iterator
from pathlib import Path

from e2e.engine.model import Shape
from e2e.engine.weights import Tensor, matrix, write_safetensors

RANK = 8


def make_adapter(folder: Path, shape: Shape, seed: int = 0) -> None:
    """Write an adapter of the query and value projections for a model of this shape into `folder`, which is made.

    It adds half as much again to what it adapts, so that answers with it and without it differ.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": RANK,
        "lora_alpha": RANK,
        "target_modules": ["q_proj", "v_proj"],
        "bias": "none",
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")
    write_safetensors(folder / "adapter_model.safetensors", dict(_tensors(seed, shape)))


def _tensors(seed: int, shape: Shape) -> Iterator[tuple[str, Tensor]]:
    for layer in range(shape.layers):
        for projection, heads in (("q_proj", shape.heads), ("v_proj", shape.kv_heads)):
            prefix = f"base_model.model.model.layers.{layer}.self_attn.{projection}"
            yield matrix(seed, f"{prefix}.lora_A.weight", RANK, shape.hidden)
            yield matrix(seed, f"{prefix}.lora_B.weight", heads * shape.head, RANK, gain=0.5)
