# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions on a cluster: when they can be used, and when they are gone."""

from collections.abc import Mapping
from contextlib import suppress

from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl, KubectlError, Manifest

WITHIN = 60.0
"""Seconds, for a slow machine that does something else as well."""
_AGAIN = "tandem.dev/look-again"


def wait_until_established(kubectl: Kubectl, *names: str) -> None:
    """Return when resources of these definitions can be made.

    `kubectl wait --for=condition=Established` is no help: it fails on a definition that has no conditions yet, as a new one hasn't.

    Raises:
        GaveUpError: they couldn't within 60 seconds.
    """

    def are_established() -> bool:
        found = [each for each in kubectl.list("crd") if each["metadata"]["name"] in names]
        return len(found) == len(names) and all(
            _condition(each, "Established").get("status") == "True" for each in found
        )

    wait_until(f"{', '.join(names)} to be established", are_established, WITHIN)


def remove(kubectl: Kubectl, *names: str) -> None:
    """Delete these definitions, with all their resources, and return when they are gone.

    Raises:
        GaveUpError: they weren't within 60 seconds.
    """
    kubectl.run("delete", "crd", *names, "--ignore-not-found", "--wait=false")
    wait_until_gone(kubectl, *names)


def wait_until_gone(kubectl: Kubectl, *names: str) -> None:
    """Return when none of these definitions, which somebody deletes, is there.

    The API server lists a definition's resources before it lets it go. Where nobody has read any yet, the list fails: `storage is
    (re)initializing`. It tries again a few milliseconds later, and where it then still sees the definition as it was before it noted
    the failure there, it leaves the rest to the change that it is about to see; and that one it ignores, since nothing but the
    failure is new in it (apiextensions-apiserver 0.35, `pkg/controller/finalizer/crd_finalizer.go`). So the definition stays until
    the API server looks at all of them, every five minutes, or until something else of it changes: here an annotation.

    Raises:
        GaveUpError: they weren't gone within 60 seconds.
    """

    def are_gone() -> bool:
        left = [each for each in kubectl.list("crd") if each["metadata"]["name"] in names]
        for each in left:
            if _condition(each, "Terminating").get("reason") == "InstanceDeletionFailed":
                _change(kubectl, each)
        return not left

    wait_until(f"{', '.join(names)} to be gone", are_gone, WITHIN)


def _condition(definition: Manifest, kind: str) -> Mapping[str, str]:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), {})


def _change(kubectl: Kubectl, definition: Manifest) -> None:
    seen = definition["metadata"]["resourceVersion"]
    # It may go at this moment.
    with suppress(KubectlError):
        kubectl.run("annotate", "crd", definition["metadata"]["name"], f"{_AGAIN}={seen}", "--overwrite")
