# SPDX-License-Identifier: Apache-2.0
"""The operator's roles: exactly what the operator says it needs, where it needs it."""

from typing import Any

import pytest

from tandem_operator.api import names
from tandem_operator.kube.permissions import RULES, Scope
from tests.chart.rendering import NAMESPACE, Manifest, one, render

Right = tuple[str, str, str]
"""Group, resource and verb."""


def _rights(rules: list[dict[str, Any]]) -> set[Right]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _needed(scope: Scope) -> set[Right]:
    return _rights([rule.manifest() for rule in RULES if rule.scope is scope])


NAMESPACED = {"watch": {"namespaces": ["team-a", "team-b"]}}


def _bound_to_the_operator(binding: Manifest) -> bool:
    return bool(binding["subjects"] == [{"kind": "ServiceAccount", "name": "tandem", "namespace": NAMESPACE}])


def test_serving_all_namespaces_takes_one_cluster_role_with_what_is_needed() -> None:
    objects = render()

    assert _rights(one(objects, "ClusterRole")["rules"]) == _needed(Scope.SERVED)
    binding = one(objects, "ClusterRoleBinding")
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tandem"}
    assert _bound_to_the_operator(binding)


def test_serving_some_namespaces_takes_a_role_in_each() -> None:
    objects = render(NAMESPACED)
    roles = [each for each in objects if each["kind"] == "Role" and each["metadata"]["name"] == "tandem"]
    bindings = [each for each in objects if each["kind"] == "RoleBinding" and each["metadata"]["name"] == "tandem"]

    assert [role["metadata"]["namespace"] for role in roles] == ["team-a", "team-b"]
    assert [_rights(role["rules"]) for role in roles] == [_needed(Scope.SERVED)] * 2
    assert [binding["metadata"]["namespace"] for binding in bindings] == ["team-a", "team-b"]
    assert all(map(_bound_to_the_operator, bindings))


def test_serving_some_namespaces_leaves_only_nodes_to_a_cluster_role() -> None:
    objects = render({**NAMESPACED, "rbac": {"aggregate": False}})

    assert [each["metadata"]["name"] for each in objects if each["kind"] == "ClusterRole"] == ["tandem-nodes"]


@pytest.mark.parametrize("values", [{}, NAMESPACED], ids=["all namespaces", "some namespaces"])
def test_nodes_are_read_and_no_more(values: dict[str, Any]) -> None:
    objects = render(values)

    assert _rights(one(objects, "ClusterRole", "tandem-nodes")["rules"]) == _needed(Scope.CLUSTER)
    assert _bound_to_the_operator(one(objects, "ClusterRoleBinding", "tandem-nodes"))


def test_the_lease_is_the_only_one_that_the_operator_may_change() -> None:
    role = one(render(), "Role", "tandem-leader-election")

    assert role["metadata"]["namespace"] == NAMESPACE
    assert _rights(role["rules"]) == _needed(Scope.OWN)
    for rule in role["rules"]:
        assert rule["verbs"] == ["create"] or rule["resourceNames"] == ["tandem"]


@pytest.mark.parametrize("name", ["tandem", "tandem-nodes", "tandem-leader-election"])
def test_rules_are_in_order_and_without_wildcards(name: str) -> None:
    [role] = [each for each in render() if each["kind"].endswith("Role") and each["metadata"]["name"] == name]
    keys = [(rule["apiGroups"], rule["resources"]) for rule in role["rules"]]

    assert keys == sorted(keys)
    assert all(rule["verbs"] == sorted(rule["verbs"]) for rule in role["rules"])
    assert not {"*", "escalate", "bind", "impersonate"} & {word for right in _rights(role["rules"]) for word in right}


def test_without_rbac_no_role_is_made() -> None:
    objects = render({"rbac": {"create": False, "aggregate": False}})

    assert [each for each in objects if "Role" in each["kind"]] == []


@pytest.mark.parametrize(("name", "roles"), [("tandem-edit", {"admin", "edit"}), ("tandem-view", {"view"})])
def test_the_clusters_own_roles_include_the_resource(name: str, roles: set[str]) -> None:
    role = one(render(), "ClusterRole", name)
    prefix = "rbac.authorization.k8s.io/aggregate-to-"

    assert {key.removeprefix(prefix) for key in role["metadata"]["labels"] if key.startswith(prefix)} == roles
    rights = _rights(role["rules"])
    assert {group for group, *_ in rights} == {names.GROUP}
    writes = {"create", "delete", "patch", "update"}
    written = {resource for _, resource, verb in rights if verb in writes}
    assert written == ({names.PLURAL, f"{names.SCALER_PLURAL}/scale"} if "edit" in roles else set())
    read = {resource for _, resource, verb in rights if verb == "watch"}
    assert read == {names.PLURAL, names.SCALER_PLURAL}, "a scaler is scaled and seen, but only Tandem makes it"
