# SPDX-License-Identifier: Apache-2.0
"""A small model of DeepSeek-V3's form with random weights: multi-head latent attention (MLA), and experts.

Its attention is as sharp as that of the small Qwen3 (`e2e.engine.model`), so that wrong KV shows in the text.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from e2e.engine.model_folder import vocabulary_rows, write_model
from e2e.engine.tokenizer import vocabulary
from e2e.engine.weights import Tensor, constant, matrix, normal, only_rows

LATENT, ROPE = 512, 64
"""What a token keeps in each layer: 512 numbers that all heads share, and 64 for its position. DeepSeek-V3's own sizes, the
only ones for which vLLM's CPU kernel is compiled (`v1/attention/backends/mla/cpu_mla.py`)."""


@dataclass(frozen=True)
class LatentShape:
    """Sizes of the model. The default has 4 million parameters and 6.75 KiB of KV per token in 32 bits."""

    hidden: int = 256
    layers: int = 3
    dense_layers: int = 1
    """The first ones have no experts."""
    heads: int = 4
    query_latent: int = 128
    plain: int = 64
    """Numbers of a head's query and key that don't depend on the position."""
    value: int = 64
    intermediate: int = 512
    experts: int = 4
    chosen: int = 2
    """Experts of each token, besides one that all share."""
    expert_intermediate: int = 64
    stretched: int = 4
    """How many times as long as the sequences "of its training" the longest prompts are (YaRN). As DeepSeek-V3's are; besides,
    vLLM's CPU kernel for positions that are not stretched (`RotaryEmbedding.forward_cpu`) takes the keys of such models, whose
    rows lie apart, for contiguous ones, and a token's KV then depends on its place in the batch."""
    longest: int = 4096


def make_latent_model(folder: Path, seed: int = 0, shape: LatentShape | None = None) -> None:
    """Write configuration, weights and tokenizer into `folder`, which is made. The same seed, the same bytes."""
    shape = shape or LatentShape()
    write_model(folder, _config(shape), _tensors(seed, shape), shape.longest)


def _config(shape: LatentShape) -> dict[str, object]:
    return {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "moe_intermediate_size": shape.expert_intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "q_lora_rank": shape.query_latent,
        "kv_lora_rank": LATENT,
        "qk_rope_head_dim": ROPE,
        "qk_nope_head_dim": shape.plain,
        "v_head_dim": shape.value,
        "first_k_dense_replace": shape.dense_layers,
        "moe_layer_freq": 1,
        "n_routed_experts": shape.experts,
        "n_shared_experts": 1,
        "num_experts_per_tok": shape.chosen,
        "n_group": 1,
        "topk_group": 1,
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.0,
        "num_nextn_predict_layers": 0,
        "rope_scaling": {
            "type": "yarn",
            "factor": float(shape.stretched),
            "original_max_position_embeddings": shape.longest // shape.stretched,
            "beta_fast": 32,
            "beta_slow": 1,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
        },
    }


def _tensors(seed: int, shape: LatentShape) -> Iterator[tuple[str, Tensor]]:
    words = vocabulary()
    yield "model.embed_tokens.weight", normal(f"{seed}/embed", vocabulary_rows(words), shape.hidden, deviation=1.0)
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}"
        yield f"{prefix}.input_layernorm.weight", constant(1.0, shape.hidden)
        yield from _attention(seed, shape, f"{prefix}.self_attn")
        yield f"{prefix}.post_attention_layernorm.weight", constant(1.0, shape.hidden)
        if layer < shape.dense_layers:
            yield from _gated(seed, f"{prefix}.mlp", shape.hidden, shape.intermediate)
        else:
            yield from _experts(seed, shape, f"{prefix}.mlp")
    yield "model.norm.weight", constant(1.0, shape.hidden)
    name, head = matrix(seed, "lm_head.weight", vocabulary_rows(words), shape.hidden, gain=4.0)
    yield name, only_rows(head, words.words)


def _attention(seed: int, shape: LatentShape, prefix: str) -> Iterator[tuple[str, Tensor]]:
    queries, keys_and_values = shape.heads * (shape.plain + ROPE), shape.heads * (shape.plain + shape.value)
    yield matrix(seed, f"{prefix}.q_a_proj.weight", shape.query_latent, shape.hidden)
    yield f"{prefix}.q_a_layernorm.weight", constant(1.0, shape.query_latent)
    # Scores with a standard deviation of 3, YaRN's factor of 1.3 included: a few tokens get most of the attention.
    yield matrix(seed, f"{prefix}.q_b_proj.weight", queries, shape.query_latent, gain=2.3)
    yield matrix(seed, f"{prefix}.kv_a_proj_with_mqa.weight", LATENT + ROPE, shape.hidden)
    yield f"{prefix}.kv_a_layernorm.weight", constant(1.0, LATENT)
    yield matrix(seed, f"{prefix}.kv_b_proj.weight", keys_and_values, LATENT)
    yield matrix(seed, f"{prefix}.o_proj.weight", shape.hidden, shape.heads * shape.value)


def _experts(seed: int, shape: LatentShape, prefix: str) -> Iterator[tuple[str, Tensor]]:
    yield matrix(seed, f"{prefix}.gate.weight", shape.experts, shape.hidden)
    yield f"{prefix}.gate.e_score_correction_bias", constant(0.0, shape.experts)
    for expert in range(shape.experts):
        yield from _gated(seed, f"{prefix}.experts.{expert}", shape.hidden, shape.expert_intermediate)
    yield from _gated(seed, f"{prefix}.shared_experts", shape.hidden, shape.expert_intermediate)


def _gated(seed: int, prefix: str, hidden: int, intermediate: int) -> Iterator[tuple[str, Tensor]]:
    yield matrix(seed, f"{prefix}.gate_proj.weight", intermediate, hidden)
    yield matrix(seed, f"{prefix}.up_proj.weight", intermediate, hidden)
    yield matrix(seed, f"{prefix}.down_proj.weight", hidden, intermediate)
