# SPDX-License-Identifier: Apache-2.0
"""What the operator would create for a resource that doesn't exist yet, by the operator's own planner."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from tandem_operator.api.names import API_VERSION, KIND
from tandem_operator.api.resource import DisaggregatedInference
from tandem_operator.plan.children import key_of
from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.plan import plan
from tandem_operator.plan.types import Defaults, Manifest, Observed

NO_UID: Final = "00000000-0000-0000-0000-000000000000"
"""Stands for the uid that the API server would give the resource."""


class Unplannable(Exception):  # noqa: N818 -- says what the resource is
    """Nothing can be created for it; the text says why."""


def resources_of(documents: Iterable[Any], namespace: str) -> Iterator[DisaggregatedInference]:
    """The resources among objects of a file, lists opened; each in its own namespace, or in `namespace`.

    Raises:
        Unplannable: one can't be read.
    """
    for document in documents:
        if not isinstance(document, Mapping):
            continue
        if document.get("kind") == "List":
            yield from resources_of(document.get("items") or (), namespace)
        elif (document.get("apiVersion"), document.get("kind")) == (API_VERSION, KIND):
            yield _read(document, namespace)


def _read(document: Mapping[str, Any], namespace: str) -> DisaggregatedInference:
    metadata = {"namespace": namespace, "uid": NO_UID, **(document.get("metadata") or {})}
    try:
        return DisaggregatedInference.model_validate({**document, "metadata": metadata, "status": None})
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise Unplannable(f"{metadata.get('name', KIND)}: {problems}") from error


def render(resource: DisaggregatedInference, defaults: Defaults, at: datetime) -> tuple[Manifest, ...]:
    """The objects, in the order in which they are applied; the exchange's Secret, which gets a key of its own, first.

    Raises:
        Unplannable: the spec contradicts itself.
    """
    try:
        planned = plan(Observed(resource=resource, at=at), defaults)
    except InvalidSpec as problem:
        raise Unplannable(f"{resource.metadata.name}: {problem}") from problem
    new = {key_of(manifest): manifest for manifest in planned.new}
    secrets = (planned.key.secret,) if planned.key and planned.key.generated else ()
    return (*secrets, *(new.get(key_of(manifest), manifest) for manifest in planned.objects))
