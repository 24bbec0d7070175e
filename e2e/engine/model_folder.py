# SPDX-License-Identifier: Apache-2.0
"""What all models here have in common: the vocabulary, parts of the configuration, and the files of the folder."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from e2e.engine.tokenizer import END_OF_TEXT, TURN_END, Vocabulary, tokenizer_config, tokenizer_json, vocabulary
from e2e.engine.weights import Tensor, write_safetensors


def vocabulary_rows(words: Vocabulary) -> int:
    """Rows of the embedding and of the head: the vocabulary, rounded up to a multiple of 64."""
    return -(-len(words.tokens) // 64) * 64


def _common_config(words: Vocabulary, longest: int) -> dict[str, object]:
    """The part of `config.json` that doesn't depend on the kind of model; prompts have up to `longest` tokens."""
    return {
        "vocab_size": vocabulary_rows(words),
        "hidden_act": "silu",
        "max_position_embeddings": longest,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": False,
        "eos_token_id": words.id_of(TURN_END),
        "pad_token_id": words.id_of(END_OF_TEXT),
        "torch_dtype": "bfloat16",
    }


def write_model(
    folder: Path, config: Mapping[str, object], tensors: Iterable[tuple[str, Tensor]], longest: int
) -> None:
    """Write configuration, weights and tokenizer into `folder`, which is made.

    Args:
        folder: the model's.
        config: what `config.json` has of this kind of model only.
        tensors: the weights, by name.
        longest: tokens of the longest prompt.
    """
    words = vocabulary()
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {
        "config.json": {**config, **_common_config(words, longest)},
        "generation_config.json": {"eos_token_id": words.id_of(TURN_END), "pad_token_id": words.id_of(END_OF_TEXT)},
        "tokenizer.json": tokenizer_json(words),
        "tokenizer_config.json": tokenizer_config(longest),
    }.items():
        (folder / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    write_safetensors(folder / "model.safetensors", dict(tensors))
