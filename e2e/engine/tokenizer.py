# SPDX-License-Identifier: Apache-2.0
"""A byte-level tokenizer whose words survive the way through text.

Decoding an answer and encoding it again, as the next turn of a conversation does, gives the same tokens, so a test that
counts reused blocks can be exact.

Each word is a chain of merges from its first letter on, so a piece of text has one reading: the longest known prefix of
a word, then single bytes.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL_TOKENS = (END_OF_TEXT, TURN_START, TURN_END)

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by id, as the tokenizer's file names them, and the merges that make the words out of bytes."""

    tokens: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
    words: frozenset[int]
    """Ids of whole words: what the model may say."""

    def id_of(self, token: str) -> int:
        return self.tokens.index(token)


@cache
def vocabulary() -> Vocabulary:
    """All bytes, the words of `words.txt` with a space before each, their beginnings, and the special tokens."""
    byte_symbol = _symbols_of_bytes()
    tokens = dict.fromkeys(byte_symbol[byte] for byte in range(256))
    merges: dict[tuple[str, str], None] = {}
    spoken = []
    for word in _words():
        symbols = [byte_symbol[byte] for byte in f" {word}".encode()]
        known = symbols[0]
        for symbol in symbols[1:]:
            merges[(known, symbol)] = None
            known += symbol
            tokens[known] = None
        spoken.append(known)
    ordered = (*tokens, *SPECIAL_TOKENS)
    return Vocabulary(ordered, tuple(merges), frozenset(ordered.index(word) for word in spoken))


def tokenizer_json(vocabulary: Vocabulary) -> dict[str, object]:
    """The content of `tokenizer.json`, which Hugging Face's tokenizers library reads."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    special = set(SPECIAL_TOKENS)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": vocabulary.id_of(token),
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token in SPECIAL_TOKENS
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(vocabulary.tokens) if token not in special},
            "merges": [list(pair) for pair in vocabulary.merges],
        },
    }


def tokenizer_config(longest: int) -> dict[str, object]:
    """The content of `tokenizer_config.json` for prompts of up to `longest` tokens."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "eos_token": TURN_END,
        "pad_token": END_OF_TEXT,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }


def _words() -> list[str]:
    return Path(__file__).with_name("words.txt").read_text(encoding="utf-8").split()


def _symbols_of_bytes() -> dict[int, str]:
    """The printable character that stands for each byte in a byte-level vocabulary.

    Printable bytes stand for themselves; the others follow from U+0100 on, in order (GPT-2's convention, which the
    tokenizers library's ByteLevel shares).
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return {byte: chr(byte) if byte in printable else chr(next(others)) for byte in range(256)}
