# SPDX-License-Identifier: Apache-2.0
"""What vLLM's CPU platform turns off for every engine, and tests may leave on: see `e2e.engine.plugin`."""

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

VARIABLE: Final = "TANDEM_TEST_UNLOCKED"
_ROOT = Path(__file__).parents[2]


class Unlocked(StrEnum):
    """What is left on."""

    MLA_PREFIX_CACHING = "mla_prefix_caching"
    """Prefix caching and chunked prefill of models with latent attention."""
    ASYNC_SCHEDULING = "async_scheduling"
    """The next step is scheduled while one runs."""


def unlocked(folder: Path, *what: Unlocked) -> Mapping[str, str]:
    """Variables for an engine that has the plugin; `folder`, which is made, takes what vLLM finds it by."""
    installed = folder / "tandem_tests-0.dist-info"
    installed.mkdir(parents=True, exist_ok=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: tandem-tests\nVersion: 0\n")
    (installed / "entry_points.txt").write_text("[vllm.general_plugins]\ntandem-tests = e2e.engine.plugin:register\n")
    folders = (folder, _ROOT, _ROOT / "connector" / "src")
    return {"PYTHONPATH": os.pathsep.join(map(str, folders)), VARIABLE: ",".join(what)}
