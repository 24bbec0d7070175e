# SPDX-License-Identifier: Apache-2.0
"""Engines of one revision that can't work together, as only their nodes and the kubelets tell."""

from collections.abc import Iterator, Sequence

from tandem_operator.api.names import ZONE_LABEL
from tandem_operator.api.status import Reason
from tandem_operator.plan.pods import EnginePod
from tandem_operator.plan.resolved import Resolved
from tandem_operator.plan.revision import ENGINE_CONTAINER
from tandem_operator.plan.troubles import Trouble

_SHOWN_DIGITS = 12


def mismatches(pods: Sequence[EnginePod], resolved: Resolved, revision: str) -> Iterator[Trouble]:
    """What differs between engines of `revision` and must not."""
    current = [pod for pod in pods if pod.revision == revision and not pod.terminating]
    zones = sorted({pod.network.zone for pod in current if pod.network.zone})
    if resolved.place.single_zone and len(zones) > 1:
        yield Trouble(
            Reason.ZONES_DIFFER,
            f"engines are in the zones {', '.join(zones)}, and EFA cannot cross zones, so that those in one do not exchange with"
            f" those in another: set {ZONE_LABEL} in spec.placement.nodeSelector, and keep podTemplate from"
            " replacing podAffinity",
        )
    images = sorted({image for pod in current if (image := _image(pod))})
    if len(images) > 1:
        yield Trouble(
            Reason.ENGINE_VERSIONS_DIFFER,
            f"engines run {len(images)} different images ({', '.join(image[:_SHOWN_DIGITS] for image in images)}), which may not"
            " understand each other: the tag has moved since some were pulled, or podTemplate names another; name the image by its"
            " digest in spec.engine.image",
        )


def _image(pod: EnginePod) -> str | None:
    """What the kubelet calls the engine's image, whichever registry it is from."""
    for container in pod.manifest.get("status", {}).get("containerStatuses") or ():
        if container["name"] == ENGINE_CONTAINER and container.get("imageID"):
            return str(container["imageID"]).rpartition("sha256:")[2]
    return None
