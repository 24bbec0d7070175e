# SPDX-License-Identifier: Apache-2.0
"""Headless Services of the engines: a name for each engine pod, for people and for tools; peers use addresses."""

from tandem_connector.contract.environment import HTTP_PORT
from tandem_connector.contract.types import Role
from tandem_operator.api.names import role_name
from tandem_operator.plan.children import ENGINE_APPLICATION, labels, metadata, selector
from tandem_operator.plan.resolved import Resolved
from tandem_operator.plan.types import Manifest


def headless_service(resolved: Resolved, role: Role) -> Manifest:
    """The Service that a StatefulSet refers to. Engines that aren't ready yet are in it: peers connect before first use."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(resolved, role_name(resolved.name, role), labels(resolved.name, role, ENGINE_APPLICATION)),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector(resolved.name, role),
            "ports": [
                {"name": "http", "port": HTTP_PORT, "targetPort": HTTP_PORT, "protocol": "TCP"},
                {
                    "name": "side-channel",
                    "port": resolved.side_channel_port,
                    "targetPort": resolved.side_channel_port,
                    "protocol": "TCP",
                },
            ],
        },
    }
