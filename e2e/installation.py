# SPDX-License-Identifier: Apache-2.0
"""Tandem on a cluster: images loaded, chart installed, a resource's pods reached."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.account import PoolsAccount
from e2e.cluster.interface import Cluster
from e2e.cluster.progress import Progress
from e2e.cluster.tools import run_helm
from e2e.engine.environment import EngineEnvironment
from e2e.images.build import build_image
from e2e.images.catalogue import CONNECTOR_INIT, ENGINE_CPU, FRONT_DOOR, OPERATOR
from e2e.kubectl import Kubectl, Manifest

NAMESPACE = "tandem-system"
RELEASE = "tandem"
CHART = Path(__file__).parent.parent / "charts" / "tandem"
ENGINE_PORT = FRONT_DOOR_PORT = 8000
SETTLED_WITHIN = 10.0
"""Seconds."""


class InstallationError(Exception):
    """Helm failed; the text is its own."""


def load_images(cluster: Cluster, environment: EngineEnvironment) -> None:
    """Build the images and make them available to the cluster's pods.

    Where nodes don't see this machine's files, the engine's image holds the 6 GB of its environment.
    """
    mounted = cluster.facts().can_mount_host_paths
    for image in (OPERATOR, FRONT_DOOR, CONNECTOR_INIT, ENGINE_CPU):
        inside = None if mounted or image is not ENGINE_CPU else environment.site_packages
        built = build_image(image, engine_environment=inside)
        with Progress(f"loading {image.reference}"):
            cluster.load_image(built.archive)


def install_operator(cluster: Cluster, *settings: str) -> None:
    """`helm upgrade --install` the chart, CRDs included, and wait until the operator is available.

    Args:
        cluster: Where; it must be up and have the images.
        settings: Values as `key=value`.

    Raises:
        InstallationError: Helm refused or the operator did not become available in time.
    """
    options = [option for setting in settings for option in ("--set", setting)]
    _helm(
        cluster,
        *("upgrade", "--install", RELEASE, str(CHART), "--create-namespace", "--wait", "--timeout", "3m"),
        *options,
    )


def _helm(cluster: Cluster, *arguments: str) -> None:
    done = run_helm(cluster.kubeconfig, NAMESPACE, *arguments)
    if done.returncode:
        raise InstallationError(f"helm {arguments[0]}: {done.stderr.strip()}")


def engine_pods(kubectl: Kubectl, resource: str, role: str = "") -> list[Manifest]:
    """The resource's engine pods, of one role or of both."""
    selector = f"tandem.dev/resource={resource},tandem.dev/engine"
    return kubectl.list("pods", f"{selector},tandem.dev/role={role}" if role else selector)


def pools_account(kubectl: Kubectl, resource: str) -> PoolsAccount:
    """What the resource's engines computed and received since they started."""
    return PoolsAccount.of(
        {
            role: [
                kubectl.pod_http(pod["metadata"]["name"], ENGINE_PORT, "/metrics")
                for pod in engine_pods(kubectl, resource, role)
            ]
            for role in ("prefill", "decode")
        }
    )


def settled_account(read: Callable[[], PoolsAccount], earlier: PoolsAccount, prompt_tokens: int) -> PoolsAccount:
    """What `read` says once decode has accounted for so many prompt tokens since `earlier` and nothing moves any more.

    An engine tells of a turn a moment after its last token, and what goes back to prefill goes after that. What has not
    settled after ten seconds is returned as it is.
    """
    end = time.monotonic() + SETTLED_WITHIN
    account = read()
    while time.monotonic() < end:
        time.sleep(0.5)
        before, account = account, read()
        if account == before and account.decode.prompt - earlier.decode.prompt >= prompt_tokens:
            break
    return account


@contextmanager
def front_door(cluster: Cluster, kubectl: Kubectl, service: str) -> Iterator[str]:
    """URL under which this machine reaches a front door, while it lasts. The Service of the operator's has the resource's name."""
    if cluster.facts().is_local:
        found = kubectl.get("service", service)
        if found is None:
            raise InstallationError(f"service {service} does not exist: is the resource applied?")
        address = found["spec"]["clusterIP"]
        yield f"http://[{address}]:{FRONT_DOOR_PORT}" if ":" in address else f"http://{address}:{FRONT_DOOR_PORT}"
    else:
        with kubectl.forwarded(f"service/{service}", FRONT_DOOR_PORT) as url:
            yield url


def condition(resource: Manifest, kind: str) -> tuple[str, str, str]:
    """Status, reason and message of one of the resource's conditions; all empty when it is not there yet."""
    for each in resource.get("status", {}).get("conditions", []):
        if each["type"] == kind:
            return each["status"], each["reason"], each["message"]
    return "", "", ""


def is_ready(resource: Manifest) -> bool:
    """Whether the operator says Ready of the resource as it now is."""
    observed = resource.get("status", {}).get("observedGeneration")
    return condition(resource, "Ready")[0] == "True" and observed == resource["metadata"]["generation"]
