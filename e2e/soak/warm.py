# SPDX-License-Identifier: Apache-2.0
"""What an engine on CPUs gathers by steps of new sizes, gathered at once, so that what it gathers later is seen.

Vllm's CPU backend keeps oneDNN primitives with each layer's weights, one for each number of tokens that a step had, up to 128
(`create_onednn_mm` in vllm/_custom_ops.py). A plain engine of the soak's size, without any connector, went from 1,122 to 1,671 MiB
by one prompt of each length up to that of a step, and by another 38 MiB by two more of each.
"""

import random
from pathlib import Path

from e2e.exchange.engine import Engine
from e2e.exchange.prompts import Prompt, ask

_SEEDS = 1_000_000
"""Of prompts that no script has."""


def warm_up(engine: Engine, model: Path, step: int) -> None:
    """Have the engine compute a step of each number of tokens up to `step`, in any order. Nobody may compute for it meanwhile."""
    sizes = list(range(1, step + 1))
    random.Random(step).shuffle(sizes)
    for size in sizes:
        ask(engine, Prompt(_SEEDS + size, size).ids(model), output=1)
