# SPDX-License-Identifier: Apache-2.0
"""The StatefulSets of engines as planning sees them: two for each revision, one for each role."""

from collections.abc import Sequence
from dataclasses import dataclass

from tandem_connector.contract.types import Role
from tandem_operator.api.names import BESIDE_ANNOTATION, REVISION_LABEL, ROLE_LABEL, role_name, set_name
from tandem_operator.plan.types import Manifest, Observed


@dataclass(frozen=True)
class EngineSet:
    """One role's StatefulSet of one revision."""

    name: str
    role: Role
    revision: str
    beside: str
    """As its revision's."""
    replicas: int
    manifest: Manifest

    @property
    def pods(self) -> tuple[str, ...]:
        """The names of those that it makes."""
        return tuple(f"{self.name}-{number}" for number in range(self.replicas))

    @property
    def template(self) -> Manifest:
        """Of its pods."""
        found: Manifest = self.manifest["spec"]["template"]
        return found


def is_observed(manifest: Manifest) -> bool:
    """Whether the object's controller has seen its present spec."""
    return bool(manifest.get("status", {}).get("observedGeneration") == manifest["metadata"].get("generation"))


def engine_sets(observed: Observed) -> tuple[EngineSet, ...]:
    """All that there are, by name."""
    return tuple(sorted(map(_read, observed.sets), key=lambda each: each.name))


def name_of_set(resource: str, role: Role, revision: str, sets: Sequence[EngineSet]) -> str:
    """The name of the role's StatefulSet of a revision: it keeps the one that it has.

    As long as a resource has had one revision only, its sets are named after the roles. A set can't be renamed, so those of later
    revisions have another name.
    """
    present = next((each.name for each in sets if (each.role, each.revision) == (role, revision)), None)
    if present:
        return present
    if all(each.revision == revision for each in sets):
        return role_name(resource, role)
    return set_name(resource, role, revision)


def _read(manifest: Manifest) -> EngineSet:
    metadata = manifest["metadata"]
    labels = manifest["spec"]["template"].get("metadata", {}).get("labels") or {}
    return EngineSet(
        name=metadata["name"],
        role=Role(metadata["labels"][ROLE_LABEL]),
        revision=labels.get(REVISION_LABEL, ""),
        beside=(metadata.get("annotations") or {}).get(BESIDE_ANNOTATION, ""),
        replicas=manifest["spec"].get("replicas", 1),
        manifest=manifest,
    )
