# SPDX-License-Identifier: Apache-2.0
"""A small Qwen3 with random weights, for engines that are to be exercised and not to be clever.

It answers in words of its list, one token each, never ends by itself (an answer is as long as `max_tokens` says), and
its attention is sharp, so that an answer depends on single tokens far back: wrong KV shows in the text.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from e2e.cache import built_once, key_of
from e2e.engine.model_folder import vocabulary_rows, write_model
from e2e.engine.tokenizer import vocabulary
from e2e.engine.weights import Tensor, constant, matrix, normal, only_rows


@dataclass(frozen=True)
class Shape:
    """Sizes of the model. The default has 50 million parameters and 12.5 KiB of KV per token."""

    hidden: int = 640
    layers: int = 10
    heads: int = 10
    kv_heads: int = 5
    head: int = 64
    intermediate: int = 1920
    longest: int = 4096


MODEL_NAME = "tandem-demo"
"""What the engines call it to their clients."""


def cached_model(seed: int = 0, shape: Shape | None = None) -> Path:
    """The model's folder in the cache, made when it is not there yet (in about a second)."""
    here = Path(__file__)
    parts = ("model_folder.py", "tokenizer.py", "weights.py", "words.txt")
    key = key_of(here, *(here.with_name(name) for name in parts), str(seed), repr(shape or Shape()))
    return built_once(f"model-{key}", lambda folder: make_model(folder, seed, shape))


def make_model(folder: Path, seed: int = 0, shape: Shape | None = None) -> None:
    """Write configuration, weights and tokenizer into `folder`, which is made. The same seed, the same bytes."""
    shape = shape or Shape()
    write_model(folder, _config(shape), _tensors(seed, shape), shape.longest)


def _config(shape: Shape) -> dict[str, object]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head,
        "use_sliding_window": False,
    }


def _tensors(seed: int, shape: Shape) -> Iterator[tuple[str, Tensor]]:
    words = vocabulary()
    queries, keys = shape.heads * shape.head, shape.kv_heads * shape.head
    yield "model.embed_tokens.weight", normal(f"{seed}/embed", vocabulary_rows(words), shape.hidden, deviation=1.0)
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}"
        yield f"{prefix}.input_layernorm.weight", constant(1.0, shape.hidden)
        yield matrix(seed, f"{prefix}.self_attn.q_proj.weight", queries, shape.hidden)
        yield matrix(seed, f"{prefix}.self_attn.k_proj.weight", keys, shape.hidden)
        yield matrix(seed, f"{prefix}.self_attn.v_proj.weight", keys, shape.hidden)
        yield matrix(seed, f"{prefix}.self_attn.o_proj.weight", shape.hidden, queries)
        # Scores with a standard deviation of 3: a few tokens get most of the attention.
        yield f"{prefix}.self_attn.q_norm.weight", constant(1.75, shape.head)
        yield f"{prefix}.self_attn.k_norm.weight", constant(1.75, shape.head)
        yield f"{prefix}.post_attention_layernorm.weight", constant(1.0, shape.hidden)
        yield matrix(seed, f"{prefix}.mlp.gate_proj.weight", shape.intermediate, shape.hidden)
        yield matrix(seed, f"{prefix}.mlp.up_proj.weight", shape.intermediate, shape.hidden)
        yield matrix(seed, f"{prefix}.mlp.down_proj.weight", shape.hidden, shape.intermediate)
    yield "model.norm.weight", constant(1.0, shape.hidden)
    name, head = matrix(seed, "lm_head.weight", vocabulary_rows(words), shape.hidden, gain=4.0)
    yield name, only_rows(head, words.words)
