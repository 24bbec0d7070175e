# SPDX-License-Identifier: Apache-2.0
"""A small Qwen3 with random weights, for engines that are to be exercised and not to be clever.

It answers in words of its list, one token each, never ends by itself (an answer is as long as `max_tokens` says), and
its attention is sharp, so that an answer depends on single tokens far back: wrong KV shows in the text.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from e2e.cache import built_once, key_of
from e2e.engine.tokenizer import END_OF_TEXT, TURN_END, Vocabulary, tokenizer_config, tokenizer_json, vocabulary
from e2e.engine.weights import Tensor, constant, normal, only_rows, write_safetensors


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
    sources = (here, *(here.with_name(name) for name in ("tokenizer.py", "weights.py", "words.txt")))
    name = f"model-{key_of(*sources, str(seed), repr(shape or Shape()))}"
    return built_once(name, lambda folder: make_model(folder, seed, shape))


def make_model(folder: Path, seed: int = 0, shape: Shape | None = None) -> None:
    """Write configuration, weights and tokenizer into `folder`, which is made. The same seed, the same bytes."""
    shape = shape or Shape()
    words = vocabulary()
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {
        "config.json": _config(shape, words),
        "generation_config.json": {"eos_token_id": words.id_of(TURN_END), "pad_token_id": words.id_of(END_OF_TEXT)},
        "tokenizer.json": tokenizer_json(words),
        "tokenizer_config.json": tokenizer_config(shape.longest),
    }.items():
        (folder / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    write_safetensors(folder / "model.safetensors", dict(_tensors(seed, shape, words)))


def _padded_size(words: Vocabulary) -> int:
    return -(-len(words.tokens) // 64) * 64


def _config(shape: Shape, words: Vocabulary) -> dict[str, object]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": _padded_size(words),
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head,
        "hidden_act": "silu",
        "max_position_embeddings": shape.longest,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": False,
        "use_sliding_window": False,
        "eos_token_id": words.id_of(TURN_END),
        "pad_token_id": words.id_of(END_OF_TEXT),
        "torch_dtype": "bfloat16",
    }


def _tensors(seed: int, shape: Shape, words: Vocabulary) -> Iterator[tuple[str, Tensor]]:
    def matrix(name: str, rows: int, columns: int, gain: float = 1.0) -> tuple[str, Tensor]:
        """A projection of `columns` to `rows` numbers that multiplies their standard deviation by `gain`."""
        return name, normal(f"{seed}/{name}", rows, columns, deviation=gain * columns**-0.5)

    queries, keys = shape.heads * shape.head, shape.kv_heads * shape.head
    yield "model.embed_tokens.weight", normal(f"{seed}/embed", _padded_size(words), shape.hidden, deviation=1.0)
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}"
        yield f"{prefix}.input_layernorm.weight", constant(1.0, shape.hidden)
        yield matrix(f"{prefix}.self_attn.q_proj.weight", queries, shape.hidden)
        yield matrix(f"{prefix}.self_attn.k_proj.weight", keys, shape.hidden)
        yield matrix(f"{prefix}.self_attn.v_proj.weight", keys, shape.hidden)
        yield matrix(f"{prefix}.self_attn.o_proj.weight", shape.hidden, queries)
        # Scores with a standard deviation of 3: a few tokens get most of the attention.
        yield f"{prefix}.self_attn.q_norm.weight", constant(1.75, shape.head)
        yield f"{prefix}.self_attn.k_norm.weight", constant(1.75, shape.head)
        yield f"{prefix}.post_attention_layernorm.weight", constant(1.0, shape.hidden)
        yield matrix(f"{prefix}.mlp.gate_proj.weight", shape.intermediate, shape.hidden)
        yield matrix(f"{prefix}.mlp.up_proj.weight", shape.intermediate, shape.hidden)
        yield matrix(f"{prefix}.mlp.down_proj.weight", shape.hidden, shape.intermediate)
    yield "model.norm.weight", constant(1.0, shape.hidden)
    name, head = matrix("lm_head.weight", _padded_size(words), shape.hidden, gain=4.0)
    yield name, only_rows(head, words.words)
