# SPDX-License-Identifier: Apache-2.0
"""Whether every engine knows what the operator's plan says for the pods that are there, once nothing changes any more."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import httpx

from e2e.engine.model import MODEL_NAME
from e2e.exchange.unrest import unrest
from e2e.images.catalogue import CONNECTOR_INIT, FRONT_DOOR
from e2e.installation import ENGINE_PORT, engine_pods, is_ready
from e2e.kubectl import Kubectl, Manifest
from tandem_connector.contract.environment import PEERS_PATH
from tandem_connector.contract.peers import PeerTable
from tandem_connector.contract.types import Role
from tandem_operator.api.names import KIND, PEERS_ANNOTATION, ROLE_LABEL
from tandem_operator.api.resource import DisaggregatedInference
from tandem_operator.plan.plan import plan
from tandem_operator.plan.types import Defaults, Observed


def unsettled(kubectl: Kubectl, resource: str) -> str | None:
    """What is not yet as it should be, in words; None if nothing is. Pods must answer on their addresses."""
    if (why := unwritten(kubectl, resource)) is not None:
        return why
    for pod in engine_pods(kubectl, resource):
        if why := _engine(kubectl, pod):
            return f"{pod['metadata']['name']}: {why}"
    return None


def unwritten(kubectl: Kubectl, resource: str) -> str | None:
    """What of the tables and labels isn't as the plan has it for the pods that are there, in words; None if nothing is."""
    manifest = kubectl.get("pdi", resource)
    if manifest is None or not is_ready(manifest):
        return "the resource is not ready"
    observed = _observed(kubectl, manifest, engine_pods(kubectl, resource))
    if wrong := [patch.name for patch in plan(observed, _defaults()).pod_patches]:
        return f"the plan would write other tables or labels on {', '.join(wrong)}"
    return None


def _engine(kubectl: Kubectl, pod: Manifest) -> str | None:
    """What its engine doesn't know, or holds."""
    name, annotation = pod["metadata"]["name"], pod["metadata"]["annotations"][PEERS_ANNOTATION]
    if kubectl.run("exec", name, "-c", "engine", "--", "cat", PEERS_PATH) != annotation:
        return "its file is not its annotation"
    table = PeerTable.model_validate_json(annotation)
    read = re.findall(r"peer_table_read generation=(\d+)", kubectl.run("logs", name, "-c", "engine"))
    if not read or int(read[-1]) != table.generation:
        return f"it has read {read[-1:]}, not the table of generation {table.generation}"
    # Metrics go with steps: those of an engine that has nothing to compute are of long ago.
    at = f"http://{pod['status']['podIP']}:{ENGINE_PORT}/v1/completions"
    httpx.post(at, json={"model": MODEL_NAME, "prompt": "well?", "max_tokens": 1}, timeout=60.0).raise_for_status()
    return ", ".join(unrest(kubectl.pod_http(name, ENGINE_PORT, "/metrics"), len(table.peers))) or None


def _observed(kubectl: Kubectl, resource: Manifest, pods: list[Manifest]) -> Observed:
    def own(kind: str) -> list[Manifest]:
        return kubectl.list(kind, f"tandem.dev/resource={resource['metadata']['name']}")

    roles = {each["metadata"]["labels"].get(ROLE_LABEL): each for each in own("pdscaler")}

    nodes: list[dict[str, Any]] = json.loads(kubectl.run("get", "nodes", "-o", "json"))["items"]
    return Observed(
        at=datetime.now(UTC),
        resource=DisaggregatedInference.model_validate(dict(resource)),
        sets=tuple(own("statefulsets")),
        # A StatefulSet's own carry its pods' labels.
        revisions=tuple(
            each for each in own("controllerrevisions") if each["metadata"]["ownerReferences"][0]["kind"] == KIND
        ),
        scalers={role: roles[role] for role in Role if role in roles},
        pods=tuple(pods),
        nodes={node["metadata"]["name"]: node for node in nodes},
    )


def _defaults() -> Defaults:
    return Defaults(front_door_image=FRONT_DOOR.reference, connector_image=CONNECTOR_INIT.reference)
