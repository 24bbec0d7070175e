# SPDX-License-Identifier: Apache-2.0
"""Who may connect to engines, by the NetworkPolicy's own rules. No network that enforces it takes part."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tandem_connector.contract.types import Role
from tandem_operator.api.names import FRONT_DOOR_ROLE
from tandem_operator.plan.children import selector
from tandem_operator.plan.plan import plan
from tests.builders import DEFAULTS, a_resource, observed
from tests.builders.resources import ResourceBuilder
from tests.plan.made import template

HERE = "models"
ANYWHERE = ("somewhere", {"app": "any"})
OPERATOR = ("tandem-system", {"app.kubernetes.io/component": "operator"})
FRONT_DOOR = (HERE, selector("qwen", FRONT_DOOR_ROLE))
PROMETHEUS = ("monitoring", {"app": "prometheus"})
HTTP, EXCHANGE, CHOSEN_BY_THE_KERNEL = 8000, 5601, 41234
Pod = tuple[str, Mapping[str, str]]


def policy(resource: ResourceBuilder) -> dict[str, Any]:
    made = plan(observed(resource), replace(DEFAULTS, namespace="tandem-system")).objects
    (found,) = [each for each in made if each["kind"] == "NetworkPolicy"]
    return dict(found)


def engine(role: Role = Role.PREFILL, resource: str = "qwen") -> Pod:
    return HERE, template(a_resource().named(resource), role)["metadata"]["labels"]


def may(caller: Pod, port: int, resource: ResourceBuilder) -> bool:
    """As Kubernetes defines it: one rule lets in whom it names, at the ports that it names, and without names everybody."""
    spec = policy(resource)["spec"]
    assert spec["policyTypes"] == ["Ingress"]
    for role in Role:
        assert _matches(spec["podSelector"], engine(role)[1]), "it is about the engines of both roles"
    return any(
        ("from" not in rule or any(_is_meant(peer, caller) for peer in rule["from"]))
        and ("ports" not in rule or port in [each["port"] for each in rule["ports"]])
        for rule in spec["ingress"]
    )


def _is_meant(peer: Mapping[str, Any], caller: Pod) -> bool:
    namespace, labels = caller
    if "namespaceSelector" in peer:
        is_there = _matches(peer["namespaceSelector"], {"kubernetes.io/metadata.name": namespace})
    else:
        is_there = "podSelector" in peer and namespace == HERE
    return is_there and _matches(peer.get("podSelector", {}), labels)


def _matches(wanted: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    return bool(wanted.get("matchLabels", {}).items() <= labels.items())


def callers(resource: ResourceBuilder, port: int) -> Iterator[Pod]:
    everyone = (engine(), engine(Role.DECODE), FRONT_DOOR, OPERATOR, PROMETHEUS, ANYWHERE, (HERE, {"app": "neighbour"}))
    yield from (caller for caller in everyone if may(caller, port, resource))


@pytest.mark.parametrize("resource", [a_resource(), a_resource().pulling(), a_resource().with_data(4)])
@pytest.mark.parametrize("port", [EXCHANGE, 5600, 5604, CHOSEN_BY_THE_KERNEL])
def test_peers_are_heard_at_any_port_and_others_at_none_of_theirs(resource: ResourceBuilder, port: int) -> None:
    assert list(callers(resource, port)) == [engine(), engine(Role.DECODE)]


def test_http_is_for_peers_the_front_door_and_the_operator() -> None:
    assert list(callers(a_resource(), HTTP)) == [engine(), engine(Role.DECODE), FRONT_DOOR, OPERATOR]


def test_engines_of_another_resource_are_strangers() -> None:
    stranger = engine(resource="other")
    assert not any(may(stranger, port, a_resource()) for port in (HTTP, EXCHANGE, CHOSEN_BY_THE_KERNEL))


def test_whoever_is_named_may_use_http_and_nothing_else() -> None:
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    resource = a_resource().with_spec("networkPolicy", value={"allowHttpFrom": [monitoring]})
    assert list(callers(resource, HTTP)) == [engine(), engine(Role.DECODE), FRONT_DOOR, OPERATOR, PROMETHEUS]
    assert not may(PROMETHEUS, EXCHANGE, resource)


def test_without_a_front_door_everybody_may_use_http_until_somebody_is_named() -> None:
    resource = a_resource().with_spec("frontDoor", "enabled", value=False)
    assert may(ANYWHERE, HTTP, resource)
    assert not may(ANYWHERE, EXCHANGE, resource)
    named = resource.with_spec(
        "networkPolicy", value={"allowHttpFrom": [{"podSelector": {"matchLabels": {"app": "gw"}}}]}
    )
    assert not may(ANYWHERE, HTTP, named)
    assert not may(FRONT_DOOR, HTTP, named)
    assert may((HERE, {"app": "gw"}), HTTP, named)
    assert may(OPERATOR, HTTP, named)


def test_what_leaves_engines_is_not_limited() -> None:
    assert "egress" not in policy(a_resource())["spec"]


def test_it_can_be_turned_off() -> None:
    off = a_resource().with_spec("networkPolicy", value={"enabled": False})
    assert not [each for each in plan(observed(off), DEFAULTS).objects if each["kind"] == "NetworkPolicy"]
