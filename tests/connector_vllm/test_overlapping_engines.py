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


def talk(folder: Path, *options: str) -> tuple[list[dict[str, Any]], str]:
    """What was said of each turn, and at the end; and the errors."""
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
            "VLLM_LOGGING_LEVEL": "ERROR",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "HF_HUB_OFFLINE": "1",
            "UCX_TLS": "tcp,self",
            "UCX_NET_DEVICES": "lo",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")], run.stderr[-4000:]


def test_a_conversation_is_right_and_each_block_is_computed_once(tmp_path: Path) -> None:
    told, errors = talk(tmp_path)

    assert len(told) == 4, errors
    *turns, end = told
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
    assert end == {"held": [0, 0]}


def test_without_the_devices_events_wrong_kv_is_read_and_noticed(tmp_path: Path) -> None:
    _, errors = talk(tmp_path, "without-events")

    assert "WrongKvError: turn-" in errors
