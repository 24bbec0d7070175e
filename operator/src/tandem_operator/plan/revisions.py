# SPDX-License-Identifier: Apache-2.0
"""The revisions of a resource: the one that the spec asks for, those that are kept, and how they are kept."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from tandem_connector.contract.environment import API_KEY
from tandem_connector.contract.types import Role
from tandem_operator.api.names import (
    COMPLETE_ANNOTATION,
    GIVEN_ANNOTATION,
    GIVEN_UP_ANNOTATION,
    REVISION_LABEL,
    revision_name,
)
from tandem_operator.plan.children import ENGINE_APPLICATION, labels, metadata
from tandem_operator.plan.engines import part
from tandem_operator.plan.resolved import PushTransfer, Resolved
from tandem_operator.plan.revision import ENGINE_CONTAINER, Part, Revision, given_of, hash_of
from tandem_operator.plan.sets import EngineSet
from tandem_operator.plan.types import Manifest, Observed

_COMPONENT: Final = "revision"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)

    template: dict[str, Any]
    launch: dict[str, str]
    gpus: int


class _Data(BaseModel):
    """What a ControllerRevision holds. It never changes, as Kubernetes sees to."""

    model_config = ConfigDict(frozen=True)

    prefill: _Part
    decode: _Part
    beside: str


def known_revisions(observed: Observed, resolved: Resolved, sets: tuple[EngineSet, ...]) -> dict[str, Revision]:
    """The revisions that are kept, and those of which only the sets are there, by name."""
    recorded = {found.name: found for manifest in observed.revisions if (found := _read(manifest))}
    left = {each.revision for each in sets} - recorded.keys()
    return {**{name: _from_sets(name, resolved, sets) for name in sorted(left)}, **recorded}


def wanted_revision(observed: Observed, resolved: Resolved, known: Mapping[str, Revision]) -> Revision:
    """The revision that the spec asks for: one that is kept, as long as what the user says of engines stays the same.

    Raises:
        InvalidSpec: when a role's `podTemplate` cannot be merged.
    """
    given = given_of(observed.resource.spec)
    for each in known.values():
        if each.given == given:
            return each
    rendered = _rendered(resolved, given, 1 + max((each.number for each in known.values()), default=0))
    # A change that makes no difference, as a default that is written out, goes on with what it was.
    present = known.get(rendered.name)
    return replace(present, given=given) if present and present.is_recorded else rendered


def record(resolved: Resolved, revision: Revision) -> Manifest:
    """The ControllerRevision that keeps a revision."""
    annotations = {
        GIVEN_ANNOTATION: revision.given,
        **({COMPLETE_ANNOTATION: "true"} if revision.was_complete else {}),
        **({GIVEN_UP_ANNOTATION: revision.given_up} if revision.given_up else {}),
    }
    own = {**labels(resolved.name, _COMPONENT, ENGINE_APPLICATION), REVISION_LABEL: revision.name}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata(resolved, revision_name(resolved.name, revision.name), own, annotations),
        "data": {
            **{
                str(role): {"template": each.template, "launch": dict(each.launch or {}), "gpus": each.gpus}
                for role, each in revision.parts.items()
            },
            "beside": revision.beside,
        },
        "revision": revision.number,
    }


def _rendered(resolved: Resolved, given: str, number: int) -> Revision:
    parts = {role: part(resolved, resolved.pools[role]) for role in Role}
    # An engine's version is told to nobody, and parts engines all the same.
    name = hash_of([resolved.version, *([each.template, dict(each.launch or {})] for each in parts.values())])
    return Revision(name, parts, given=given, beside=_beside(resolved, parts[Role.DECODE], name), number=number)


def _beside(resolved: Resolved, decode: Part, name: str) -> str:
    """The same for revisions of which any may answer any client, behind one front door.

    With `NixlPull` the front door takes any prefill and any decode engine for a request, so there may be one revision at a time.
    A router is told once how many data-parallel ranks a pod has. A client has one API key, which it changes at one moment.
    """
    model = [resolved.model.name, resolved.model.revision, resolved.model.served_name]
    one_of_many = None if isinstance(resolved.transfer, PushTransfer) else name
    containers = {each["name"]: each for each in decode.template["spec"]["containers"]}
    keys = [each for each in containers[ENGINE_CONTAINER].get("env") or () if each["name"] == API_KEY]
    return hash_of([*model, resolved.pools[Role.DECODE].data, one_of_many, *keys])


def _read(manifest: Manifest) -> Revision | None:
    about = manifest["metadata"]
    annotations = about.get("annotations") or {}
    try:
        data = _Data.model_validate(manifest.get("data"))
    except ValidationError:
        return None
    parts = {Role.PREFILL: data.prefill, Role.DECODE: data.decode}
    return Revision(
        name=(about.get("labels") or {}).get(REVISION_LABEL, ""),
        parts={role: Part(each.template, each.launch, each.gpus) for role, each in parts.items()},
        given=annotations.get(GIVEN_ANNOTATION, ""),
        beside=data.beside,
        number=manifest.get("revision", 1),
        was_complete=annotations.get(COMPLETE_ANNOTATION) == "true",
        given_up=annotations.get(GIVEN_UP_ANNOTATION),
    )


def _from_sets(name: str, resolved: Resolved, sets: tuple[EngineSet, ...]) -> Revision:
    """As far as sets tell of it: its record was deleted, or it is of an operator that kept none."""
    own = {each.role: each for each in sets if each.revision == name}
    parts = {role: _part_of(own.get(role), resolved.pools[role].devices.gpu_resource) for role in Role}
    beside = next((each.beside for each in own.values()), "")
    return Revision(name, parts, given="", beside=beside, number=0, is_recorded=False)


def _part_of(of: EngineSet | None, gpu_resource: str) -> Part:
    if of is None:
        return Part({}, None, 0)
    containers = of.template.get("spec", {}).get("containers") or ()
    limits = [(each.get("resources") or {}).get("limits") or {} for each in containers]
    return Part(of.template, None, sum(int(each.get(gpu_resource, 0)) for each in limits))
