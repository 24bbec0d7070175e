# SPDX-License-Identifier: Apache-2.0
"""Where a step is scheduled before the last one has run, as is vLLM's default on GPUs, all is right and nothing more is computed."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from e2e.engine.environment import engine_environment
from e2e.engine.model import Shape, make_model

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("overlapping_inside_engine.py")
BLOCK = 32
pytestmark = pytest.mark.timeout(300)


def talk(folder: Path, *options: str, level: str = "ERROR") -> tuple[list[dict[str, Any]], str]:
    """What was said of each turn, and at the end; and what was logged, errors last."""
    environment = engine_environment()
    if not environment.complete:
        pytest.skip("the engine environment isn't built: run `make prepare`")
    model = folder / "model"
    make_model(model, shape=Shape(hidden=64, layers=1, heads=2, kv_heads=1, head=32, intermediate=64))
    run = subprocess.run(
        [str(environment.python), str(SCRIPT), str(model), str(folder), *options],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT / "connector" / "src"), str(ROOT))),
            "VLLM_LOGGING_LEVEL": level,
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "HF_HUB_OFFLINE": "1",
            "UCX_TLS": "tcp,self",
            "UCX_NET_DEVICES": "lo",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    lines = run.stdout.splitlines()
    told = [json.loads(line) for line in lines if line.startswith("{")]
    return told, "\n".join([*(line for line in lines if not line.startswith("{")), run.stderr])[-4000:]


def test_a_conversation_is_right_and_each_block_is_computed_once(tmp_path: Path) -> None:
    told, errors = talk(tmp_path)

    assert len(told) == 4, errors
    *turns, end = told
    each_block_is_computed_once(turns)
    assert end == {"held": [0, 0]}


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], str]:
    """With the KV of latent attention, and adapters."""
    return talk(tmp_path_factory.mktemp("adapted"), "latent", "adapter")


def test_so_it_is_with_the_kv_of_latent_attention_and_an_adapter(adapted: tuple[list[dict[str, Any]], str]) -> None:
    told, errors = adapted

    assert len(told) == 7, errors
    each_block_is_computed_once(told[:3])
    assert told[-1] == {"held": [0, 0]}


def test_without_the_adapter_no_block_of_its_conversation_is_used(adapted: tuple[list[dict[str, Any]], str]) -> None:
    without_it = adapted[0][3]

    assert without_it["right"]
    assert without_it["cached"] == 0
    assert without_it["received"] == {"forward": (without_it["prompt"] - 1) // BLOCK * BLOCK}
    assert without_it["computed_by_prefill"] == without_it["prompt"]


def test_an_adapter_that_prefill_lacks_or_has_elsewhere_is_computed_by_decode(
    adapted: tuple[list[dict[str, Any]], str],
) -> None:
    for alone in adapted[0][4:6]:
        assert alone["right"]
        assert (alone["cached"], alone["received"], alone["computed"]) == (0, {}, alone["prompt"])


def test_engines_whose_kv_has_other_types_name_the_field_and_decode_computes_by_itself(tmp_path: Path) -> None:
    told, errors = talk(tmp_path, "other-kv", level="WARNING")

    assert len(told) == 4, errors
    for turn in told[:-1]:
        assert turn["right"]
        assert (turn["received"], turn["local"]) == ({}, "no_peer")
    assert "kv_cache_dtype: 'auto' != 'fp8'" in errors
    assert "kv_cache_dtype: 'fp8' != 'auto'" in errors


def each_block_is_computed_once(turns: list[dict[str, Any]]) -> None:
    known = 0
    for turn in turns:
        prompt, held = turn["prompt"], known // BLOCK
        full = (prompt - 1) // BLOCK
        assert turn["right"]
        assert turn["computed"] == prompt - full * BLOCK
        assert turn["cached"] == held * BLOCK
        assert turn["received"] == {"forward": (full - held) * BLOCK}
        assert turn["computed_by_prefill"] == prompt - held * BLOCK
        # The last token that was said has no KV yet.
        known = prompt + turn["output"] - 1


def test_without_the_devices_events_wrong_kv_is_read_and_noticed(tmp_path: Path) -> None:
    _, errors = talk(tmp_path, "without-events")

    assert "WrongKvError: turn-" in errors
