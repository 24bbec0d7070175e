# SPDX-License-Identifier: Apache-2.0
"""Short ways to what a plan makes."""

from typing import Any

from tandem_connector.contract.types import Role
from tandem_operator.api.names import role_name
from tandem_operator.plan.plan import plan
from tests.builders import DEFAULTS, observed
from tests.builders.resources import ResourceBuilder


def objects(resource: ResourceBuilder, kind: str) -> dict[str, Any]:
    """The objects of a kind, by name."""
    made = plan(observed(resource), DEFAULTS).objects
    return {each["metadata"]["name"]: each for each in made if each["kind"] == kind}


def pod_spec(resource: ResourceBuilder, role: Role = Role.DECODE) -> dict[str, Any]:
    found: dict[str, Any] = template(resource, role)["spec"]
    return found


def template(resource: ResourceBuilder, role: Role = Role.DECODE) -> dict[str, Any]:
    name = role_name(resource.manifest()["metadata"]["name"], role)
    found: dict[str, Any] = objects(resource, "StatefulSet")[name]["spec"]["template"]
    return found


def engine(resource: ResourceBuilder, role: Role = Role.DECODE) -> dict[str, Any]:
    return named(pod_spec(resource, role)["containers"], "engine")


def environment(resource: ResourceBuilder, role: Role = Role.DECODE) -> dict[str, Any]:
    """The engine's variables by name; those with a source as that source."""
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in engine(resource, role)["env"]}


def script(resource: ResourceBuilder, role: Role = Role.DECODE) -> str:
    """The launch script that the role's pods mount."""
    volume = named(pod_spec(resource, role)["volumes"], "launch")
    return str(objects(resource, "ConfigMap")[volume["configMap"]["name"]]["data"]["launch.sh"])


def named(elements: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = [each for each in elements if each["name"] == name]
    return found
