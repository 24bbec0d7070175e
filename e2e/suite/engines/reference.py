# SPDX-License-Identifier: Apache-2.0
"""What one plain engine answers: the truth that prefill and decode are compared with."""

from pathlib import Path

from e2e.conversation import Turn, held
from e2e.engine.environment import EngineEnvironment
from e2e.engine.model import MODEL_NAME
from e2e.exchange.engines import EngineSpec, running


def plain_answers(environment: EngineEnvironment, model: Path, folder: Path) -> list[Turn]:
    """The scripted conversation as one engine without any connector answers it; its log goes into `folder`.

    It has one core, as each engine in a pod: with another number of threads sums are rounded differently.
    """
    with running(environment, model, folder) as engines:
        engine = engines.start(plain=EngineSpec(role=None, core="0"))["plain"]
        return list(held(engine.url, MODEL_NAME, session="reference"))
