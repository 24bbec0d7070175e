# SPDX-License-Identifier: Apache-2.0
"""How a plain engine is started on this machine, as an ordinary process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from e2e.engine.environment import EngineEnvironment
from e2e.engine.model import MODEL_NAME
from e2e.engine.variables import CPU, Device, bound_to


@dataclass(frozen=True)
class Command:
    """A program to start: its arguments, and what its environment has beyond the caller's."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def plain_engine(
    environment: EngineEnvironment,
    model: Path,
    *,
    port: int,
    cores: str = "0",
    more_arguments: Sequence[str] = (),
    device: Device = CPU,
) -> Command:
    """An OpenAI-compatible server on 127.0.0.1:`port` that serves the folder `model` as `MODEL_NAME`.

    It answers `/health` when it is ready, 10 to 30 seconds later, and takes 3 GB of memory. `cores` are those that its
    computation is bound to. It starts child processes; ending it with SIGTERM ends them.
    """
    return Command(
        (
            *(str(environment.python), "-m", "vllm.entrypoints.openai.api_server"),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--model", str(model), "--served-model-name", MODEL_NAME),
            *device.arguments,
            *more_arguments,
        ),
        {**device.environment, **bound_to(cores)},
    )
