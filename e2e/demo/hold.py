# SPDX-License-Identifier: Apache-2.0
"""Holding the demo's conversation, with an account of each turn."""

import uuid
from collections.abc import Callable

from e2e.account import PoolsAccount
from e2e.cluster.interface import Cluster
from e2e.cluster.progress import Progress
from e2e.conversation import SCRIPT, Conversation, Turn
from e2e.demo.held import Row
from e2e.engine.model import MODEL_NAME
from e2e.installation import front_door, pools_account, settled_account
from e2e.kubectl import Kubectl

Told = Callable[[str, Turn], None]
"""Called after each turn with what the user said and what was answered."""


def hold(url: str, read: Callable[[], PoolsAccount], way: str, told: Told | None = None) -> tuple[Row, ...]:
    """The whole script, each turn answered and accounted for before the next one is asked.

    Args:
        url: of an OpenAI-compatible server.
        read: what its engines have computed and moved until now.
        way: shown while a turn takes long.
        told: see `Told`.

    Raises:
        openai.APIError: the server refused or broke off.
    """
    rows = []
    conversation = Conversation(url, MODEL_NAME, session=uuid.uuid4().hex)
    account = read()
    for number, text in enumerate(SCRIPT, start=1):
        with Progress(f"{way}: turn {number}") as progress:
            turn = conversation.say(text, heard=lambda answer: progress.update(f"{len(answer.split())} words"))
        if told:
            told(text, turn)
        now = settled_account(read, account, turn.prompt_tokens)
        rows.append(Row(turn, now.since(account)))
        account = now
    conversation.close()
    return tuple(rows)


def hold_through(
    cluster: Cluster, kubectl: Kubectl, resource: str, way: str, told: Told | None = None
) -> tuple[Row, ...]:
    """As `hold`, through the front door of the resource."""
    with front_door(cluster, kubectl, resource) as url:
        return hold(url, lambda: pools_account(kubectl, resource), way, told)
