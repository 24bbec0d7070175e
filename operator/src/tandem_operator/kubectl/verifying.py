# SPDX-License-Identifier: Apache-2.0
"""Asks the operator for conversations with a resource's engines now, and waits for what they show.

It asks as `kubectl rollout restart` does, by an annotation: so whoever may edit the resource may ask, and the operator, which watches
the resource, needs no door of its own.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from tandem_operator.api.names import SHORT_NAME, VERIFY_ANNOTATION
from tandem_operator.kube.client import Client
from tandem_operator.kube.errors import Conflict, Gone
from tandem_operator.kube.kinds import RESOURCE
from tandem_operator.kubectl.exits import Exit, Failed
from tandem_operator.kubectl.reading import Whereabouts, look, resources
from tandem_operator.kubectl.views.seen import Seen
from tandem_operator.kubectl.views.verify import VerifyView, not_waited_for, verify_view
from tandem_operator.plan.requests import why_never

LOOK_EVERY: Final = 1.0
"""Seconds."""
_MANAGER: Final = "kubectl-tandem"
_FORMAT: Final = "%Y-%m-%dT%H:%M:%S.%fZ"


async def verified(
    client: Client, where: Whereabouts, name: str, *, patience: float, told: Callable[[VerifyView], None]
) -> VerifyView:
    """What came of it.

    Args:
        client: of the cluster.
        where: the resource's namespace.
        name: of the resource.
        patience: seconds to wait. What was asked for then goes on.
        told: called with each look at how far it is.

    Raises:
        Failed: the resource isn't there, or its engines are never conversed with.
    """
    seen = await _seen(client, where, name)
    metadata = seen.observed.resource.metadata
    if why := why_never(seen.observed.resource.spec):
        edit = f"kubectl --namespace {metadata.namespace} edit {SHORT_NAME} {name}"
        raise Failed(Exit.NOT_WELL, f"{metadata.namespace}/{name}: {why}\nnext: {edit}")
    request = datetime.now(UTC).strftime(_FORMAT)
    asked = {VERIFY_ANNOTATION: request}
    try:
        await client.annotate(RESOURCE, metadata.namespace, name, metadata.uid, asked, manager=_MANAGER)
    except (Gone, Conflict) as error:
        raise Failed(Exit.NOT_FOUND, f"{metadata.namespace}/{name} went, or was made anew, meanwhile") from error
    view = verify_view(await _seen(client, where, name), request)
    try:
        async with asyncio.timeout(patience):
            while True:
                told(view)
                if view.is_over:
                    return view
                await asyncio.sleep(LOOK_EVERY)
                view = verify_view(await _seen(client, where, name), request)
    except TimeoutError:
        return not_waited_for(view, patience)


async def _seen(client: Client, where: Whereabouts, name: str) -> Seen:
    (found,) = await resources(client, where.chosen_namespace(), [name])
    return await look(client, found, with_nodes=False)
