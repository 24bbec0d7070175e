# SPDX-License-Identifier: Apache-2.0
"""Resources of any shape that the schema allows: the API server refuses each, or takes all that is made of it."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st
from kubernetes import client, config

from e2e.cluster.interface import Cluster
from e2e.suite.refusals import BASE
from tandem_operator.api import names
from tandem_operator.api.crd import RESOURCE
from tandem_operator.api.resource import DisaggregatedInference
from tandem_operator.kube.client import APPLY_PATCH, as_yaml
from tandem_operator.kube.kinds import kind_of
from tandem_operator.plan.children import key_of
from tandem_operator.plan.plan import plan
from tandem_operator.plan.types import Defaults, Manifest, Observed
from tests.api.strategies import objects_of

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(900)]  # The first test may have to build Kubernetes.

_OPEN: Final[dict[str, list[Any]]] = {
    "podTemplate": [
        {"metadata": {"labels": {"team": "a"}}},
        {"spec": {"containers": [{"name": "sidecar", "image": "a"}], "volumes": [{"name": "v", "emptyDir": {}}]}},
        {"spec": {"terminationGracePeriodSeconds": 200, "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}]}},
    ],
    "valueFrom": [{"fieldRef": {"fieldPath": "status.podIP"}}, {"secretKeyRef": {"name": "a", "key": "b"}}],
    "tolerations": [[], [{"operator": "Exists"}], [{"key": "a", "value": "b", "effect": "NoSchedule"}]],
    "podSelector": [{}, {"matchLabels": {"a": "b"}}],
    "namespaceSelector": [{}],
    "ipBlock": [{"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}],
    # Which of them there are is the pod's matter, and that requests are within limits the operator's.
    "resources": [{"requests": {"cpu": 1, "memory": "1.5Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}],
}
"""What is open in the schema: values that a pod may have."""


def _closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with what is open in it replaced by a choice."""
    properties = {
        name: {"enum": _OPEN[name]} if name in _OPEN else _closed(each)
        for name, each in schema.get("properties", {}).items()
    }
    return {
        **schema,
        **({"properties": properties} if properties else {}),
        **({"items": _closed(schema["items"])} if "items" in schema else {}),
    }


def _fields(schema: Mapping[str, Any], *path: str) -> Iterator[tuple[tuple[str, ...], st.SearchStrategy[Any]]]:
    """Each field that can be set by itself: path and values. What has required fields is set as a whole."""
    for name, each in schema["properties"].items():
        is_base = len(path) == 0 and name in BASE["spec"]
        if "properties" in each and (is_base or not each.get("required")):
            yield from _fields(each, *path, name)
        else:
            yield (*path, name), objects_of(each)


_FIELDS: Final = dict(_fields(_closed(RESOURCE.schema()["properties"]["spec"])))
_ON_CPUS: Final = {"accelerator": {"instanceType": "none"}, "prefill": {}, "decode": {}}


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """A valid spec in which a few fields have other values. With all fields drawn the rules would let nothing through."""
    spec: dict[str, Any] = _copied(BASE["spec"]) | _copied(draw(st.sampled_from([{}, _ON_CPUS])))
    for path in draw(st.lists(st.sampled_from(sorted(_FIELDS)), min_size=1, max_size=5, unique=True)):
        at = spec
        for name in path[:-1]:
            at = at.setdefault(name, {})
        at[path[-1]] = draw(_FIELDS[path])
    return spec


def _copied(value: Any) -> Any:
    return {name: _copied(each) for name, each in value.items()} if isinstance(value, dict) else value


@pytest.fixture(scope="module")
def api(control_plane: Cluster) -> Iterator[client.ApiClient]:
    api = config.new_client_from_config(str(control_plane.kubeconfig))  # type: ignore[no-untyped-call]
    yield api
    api.close()


class RefusedError(Exception):
    """The API server doesn't take an object; the text is its own."""


def _dry(api: client.ApiClient, method: str, path: str, body: Manifest, **query: str) -> None:
    """Creates or applies, as the operator writes it."""
    is_apply = method == "PATCH"
    request = api.param_serialize(
        method,
        path,
        query_params=[("dryRun", "All"), *query.items()],
        header_params={"Content-Type": APPLY_PATCH if is_apply else "application/json", "Accept": "application/json"},
        body=as_yaml(body) if is_apply else dict(body),
    )
    response = api.call_api(*request)
    answer = response.read().decode()  # type: ignore[no-untyped-call]
    if response.status >= HTTPStatus.MULTIPLE_CHOICES:
        assert response.status == HTTPStatus.UNPROCESSABLE_ENTITY, answer
        raise RefusedError(f"{method} {path}: {answer}")


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(spec=specs())
@example(
    spec={
        **BASE["spec"],
        "decode": {"parallelism": {"tensor": 8}, "args": ["--x=\N{HUGGING FACE}\x7f\x85\u2028\ufeff"]},
    }
)
def test_a_resource_is_refused_or_all_that_is_made_of_it_is_taken(api: client.ApiClient, spec: dict[str, Any]) -> None:
    body = {**BASE, "spec": spec}
    collection = f"/apis/{names.API_VERSION}/namespaces/default/{names.PLURAL}"
    try:
        _dry(api, "POST", collection, body, fieldValidation="Strict")
    except RefusedError:
        event("refused")
        return
    event("taken")
    stored = {
        **body,
        "metadata": {**BASE["metadata"], "namespace": "default", "uid": "00000000-0000-4000-8000-000000000001"},
    }
    made = plan(
        Observed(DisaggregatedInference.model_validate(stored), at=datetime.now(UTC)),
        Defaults("front-door", "connector", "tandem-system"),
    )
    # What is left to others after it is made is not in the first of the two.
    for each in {key_of(each): each for each in (*made.objects, *made.new)}.values():
        path = kind_of(key_of(each)).path("default", each["metadata"]["name"])
        _dry(api, "PATCH", path, each, fieldManager=names.FIELD_MANAGER, force="true", fieldValidation="Strict")


def test_every_field_is_among_those_that_are_changed() -> None:
    assert {path[0] for path in _FIELDS} == set(RESOURCE.schema()["properties"]["spec"]["properties"])
    assert ("transfer", "auth") in _FIELDS
    assert ("decode", "podTemplate") in _FIELDS
