# SPDX-License-Identifier: Apache-2.0
"""The small random Qwen3: its bytes depend on the seed alone, and its text survives a round trip through its tokens."""

import json
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from e2e.engine.environment import engine_environment
from e2e.engine.model import Shape, make_model
from e2e.engine.tokenizer import vocabulary

SMALL = Shape(hidden=64, layers=1, heads=2, kv_heads=1, head=32, intermediate=64)


def contents(folder: Path) -> dict[str, str]:
    return {file.name: sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def test_the_same_seed_makes_the_same_bytes(tmp_path: Path) -> None:
    make_model(tmp_path / "one", seed=7, shape=SMALL)
    make_model(tmp_path / "two", seed=7, shape=SMALL)

    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert contents(tmp_path / "one")["model.safetensors"] == (
        "1dcdd9d5bdab111b4683b4e42f1189b46ea2d2e24cc555232cbe2982a6e3e7e0"
    )


def test_another_seed_changes_the_weights_and_nothing_else(tmp_path: Path) -> None:
    make_model(tmp_path / "one", seed=7, shape=SMALL)
    make_model(tmp_path / "two", seed=8, shape=SMALL)

    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert {name for name in one if one[name] != two[name]} == {"model.safetensors"}


def test_the_model_can_say_words_only(tmp_path: Path) -> None:
    make_model(tmp_path, shape=SMALL)
    raw = (tmp_path / "model.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    head = json.loads(raw[8 : 8 + length])["lm_head.weight"]
    begin, end = head["data_offsets"]
    data = raw[8 + length + begin : 8 + length + end]
    rows, columns = head["shape"]

    speaking = {row for row in range(rows) if any(data[row * columns * 2 : (row + 1) * columns * 2])}

    assert speaking == set(vocabulary().words)


def test_the_weights_file_has_what_its_header_says(tmp_path: Path) -> None:
    make_model(tmp_path, shape=SMALL)
    raw = (tmp_path / "model.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    del header["__metadata__"]

    ends = [0]
    for tensor in header.values():
        begin, end = tensor["data_offsets"]
        size = 2
        for dimension in tensor["shape"]:
            size *= dimension
        assert (begin, end - begin) == (ends[-1], size)
        ends.append(end)
    assert len(raw) == 8 + length + ends[-1]


@pytest.mark.skipif(not engine_environment().complete, reason="needs `python -m e2e.engine build` (6 GB)")
def test_an_answer_read_again_gives_the_same_tokens(tmp_path: Path) -> None:
    make_model(tmp_path, shape=SMALL)
    words = sorted(vocabulary().words)
    script = """
import json, sys
from transformers import AutoTokenizer
folder, ids = sys.argv[1], json.loads(sys.argv[2])
tokenizer = AutoTokenizer.from_pretrained(folder)
question = {"role": "user", "content": "Wie geht's, Grüße? 你好"}
answer = {"role": "assistant", "content": tokenizer.decode(ids)}
asked = tokenizer.apply_chat_template([question], add_generation_prompt=True, return_dict=False)
both = tokenizer.apply_chat_template([question, answer], return_dict=False)
print(json.dumps({"asked": asked, "both": both, "text": tokenizer.decode(asked)}))
"""
    ran = subprocess.run(
        [engine_environment().python, "-c", script, tmp_path, json.dumps(words)],
        capture_output=True,
        text=True,
        check=True,
    )
    seen = json.loads(ran.stdout)

    assert seen["both"][: len(seen["asked"]) + len(words)] == seen["asked"] + words
    assert seen["text"] == "<|im_start|>user\nWie geht's, Grüße? 你好<|im_end|>\n<|im_start|>assistant\n"
