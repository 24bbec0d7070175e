# SPDX-License-Identifier: Apache-2.0
"""One conversation of the operator's with real engines, as it holds them."""

import asyncio
from typing import Final

from prometheus_client import CollectorRegistry

from e2e.engine.model import MODEL_NAME
from e2e.exchange.engines import BLOCK_SIZE, Engine
from tandem_connector.contract.types import pod_of
from tandem_operator.kube.observe import ResourceKey
from tandem_operator.metrics import Metrics
from tandem_operator.plan.conversation import Course, Result
from tandem_operator.plan.target import Place, Target
from tandem_operator.plan.verification import Report
from tandem_operator.wiring.conversing import Conversations
from tandem_operator.wiring.engine_client import EngineClient, engine_session

ABOVE_TOKENS: Final = 64
_WITHIN: Final = 300.0


def verify(decode: Engine, prefill: Engine) -> Report:
    """What one conversation shows of these two, in engines that ask for more than `ABOVE_TOKENS` tokens."""
    return asyncio.run(_verify(_target(decode, prefill)))


def result_of(report: Report) -> Result:
    """The one result of a conversation.

    Raises:
        ValueError: there are others.
    """
    (result,) = report.results.values()
    return result


async def _verify(target: Target) -> Report:
    key, heard = ResourceKey("models", "pair"), asyncio.Event()
    async with engine_session() as session:
        conversations = Conversations(
            EngineClient(session), Metrics(CollectorRegistry()), at_once=1, on_report=lambda _: heard.set()
        )
        conversations.follow(key, [target])
        async with asyncio.timeout(_WITHIN):
            await heard.wait()
        (report,) = conversations.reports(key)
        conversations.stop()
    return report


def _target(decode: Engine, prefill: Engine) -> Target:
    return Target(
        pod=pod_of(decode.id),
        place=_place(decode),
        ranks=1,
        prefills={pod_of(prefill.id): _place(prefill)},
        model=MODEL_NAME,
        course=Course.of(ABOVE_TOKENS, BLOCK_SIZE, pushes=True),
        period=600.0,
        settled=False,
        pairs={},
        fabrics={},
    )


def _place(engine: Engine) -> Place:
    return Place(engine.id, "127.0.0.1", engine.port)
