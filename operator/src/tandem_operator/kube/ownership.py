# SPDX-License-Identifier: Apache-2.0
"""Whose an object is: a resource may only touch what it made itself."""

from datetime import timedelta
from typing import Final

import structlog

from tandem_operator.api import names
from tandem_operator.api.resource import Metadata
from tandem_operator.kube.client import Client
from tandem_operator.kube.errors import Refused, Requeue
from tandem_operator.kube.kinds import controller_of, kind_of
from tandem_operator.plan.types import Manifest, ObjectKey

_log = structlog.get_logger()

_UNTIL_REMOVED: Final = timedelta(seconds=0.5)


def owns(owner: Metadata, manifest: Manifest) -> bool:
    """Whether the resource, this very one and not a former one of its name, is the object's controller."""
    controller = controller_of(manifest)
    return controller is not None and controller["uid"] == owner.uid


async def check_ownership(client: Client, owner: Metadata, key: ObjectKey, present: Manifest) -> None:
    """Return if the resource owns the object.

    What a former resource of the same name left is deleted: the garbage collector would do so too, but may take its time, and two
    controllers in one object's owner references are invalid.

    Raises:
        Requeue: a former resource's object is being removed.
        Refused: the object is somebody else's.
    """
    if owns(owner, present):
        return
    controller = controller_of(present)
    if controller is not None and (controller["kind"], controller["name"]) == (names.KIND, owner.name):
        uid = present["metadata"]["uid"]
        _log.info("object of a former resource in the way", kind=key.kind, name=key.name)
        await client.delete(kind_of(key), owner.namespace, key.name, uid)
        raise Requeue(f"{key.kind} {key.name} of a former resource of this name is being removed", _UNTIL_REMOVED)
    holder = f"belongs to {controller['kind']} {controller['name']}" if controller else "was not made by Tandem"
    raise Refused(f"{key.kind} {key.name} exists and {holder}: delete it, or give the {names.KIND} another name")
