# SPDX-License-Identifier: Apache-2.0
"""The definition on a real API server: it is taken, refuses what it should, and lets the neighbours through."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException, UnprocessableEntityException

from e2e.cluster.interface import Cluster
from e2e.suite.refusals import BASE, Refusal, resource
from e2e.suite.rule_refusals import RULE_REFUSALS
from e2e.suite.schema_refusals import SCHEMA_REFUSALS
from tandem_operator.api import names
from tandem_operator.api.accelerators import INSTANCE_TYPES
from tandem_operator.api.arguments import OWNED_ENGINE_ARGUMENTS, OWNED_FRONT_DOOR_ARGUMENTS
from tandem_operator.api.crd import RESOURCE
from tandem_operator.api.resource import DisaggregatedInference
from tandem_operator.plan.resolve import resolve
from tandem_operator.plan.types import Defaults

pytestmark = pytest.mark.apiserver

Create = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Creates a resource in a dry run and returns what would be stored."""


@pytest.fixture(scope="module")
def api(control_plane: Cluster) -> Iterator[client.ApiClient]:
    api = config.new_client_from_config(str(control_plane.kubeconfig))  # type: ignore[no-untyped-call]
    yield api
    api.close()


@pytest.fixture(scope="module")
def create(api: client.ApiClient) -> Create:
    return lambda body: _create(api, body)


def _create(api: client.ApiClient, body: Mapping[str, Any], **options: str) -> dict[str, Any]:
    objects: Any = client.CustomObjectsApi(api)
    created: dict[str, Any] = objects.create_namespaced_custom_object(
        names.GROUP, names.VERSION, "default", names.PLURAL, dict(body), dry_run="All", **options
    )
    return created


def _causes(create: Create, body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Field and message of everything that the API server finds wrong with the body."""
    with pytest.raises(UnprocessableEntityException) as refused:
        create(body)
    return [(cause["field"], cause["message"]) for cause in json.loads(str(refused.value.body))["details"]["causes"]]


def _named(refusals: tuple[Refusal, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("refusal", refusals, ids=lambda refusal: refusal.name.replace(" ", "-"))


@_named(RULE_REFUSALS)
def test_a_rule_refuses_with_its_field_and_remedy(create: Create, refusal: Refusal) -> None:
    causes = [(field, _without_verdict(message)) for field, message in _causes(create, resource(refusal.wrong))]

    assert causes == [(refusal.field, refusal.message)]


@_named(SCHEMA_REFUSALS)
def test_the_schema_refuses_with_its_field(create: Create, refusal: Refusal) -> None:
    causes = _causes(create, resource(refusal.wrong))

    assert (refusal.field, refusal.message) in [(field, message[: len(refusal.message)]) for field, message in causes]


@_named(RULE_REFUSALS + SCHEMA_REFUSALS)
def test_the_valid_neighbour_is_taken_as_it_is(create: Create, refusal: Refusal) -> None:
    neighbour = resource(refusal.right)

    assert create(neighbour)["spec"] == neighbour["spec"]


def test_nothing_is_added_to_what_the_user_wrote(create: Create) -> None:
    assert create(BASE)["spec"] == BASE["spec"]


@pytest.mark.parametrize(
    ("part", "argument", "remedy"),
    [
        *(("engine", name, remedy) for name, remedy in OWNED_ENGINE_ARGUMENTS.items()),
        *(("frontDoor", name, remedy) for name, remedy in OWNED_FRONT_DOOR_ARGUMENTS.items()),
    ],
)
def test_each_argument_that_tandem_sets_is_refused_with_what_to_use(
    create: Create, part: str, argument: str, remedy: str
) -> None:
    [(field, message)] = _causes(create, resource({"spec": {part: {"args": ["--seed=1", argument]}}}))

    # Of a name that is the beginning of another one, either remedy may come first.
    remedies = {
        each
        for name, each in (OWNED_ENGINE_ARGUMENTS | OWNED_FRONT_DOOR_ARGUMENTS).items()
        if name.startswith(argument)
    }
    assert field == f"spec.{part}.args"
    assert _without_verdict(message) in {f"must not contain {argument}: {each}" for each in {remedy, *remedies}}


def test_an_argument_with_a_line_break_is_refused_with_the_fixed_message(create: Create) -> None:
    body = resource({"spec": {"engine": {"args": ["--port=1\n2"]}}})

    [(field, message)] = _causes(create, body)

    assert (field, _without_verdict(message)) == (
        "spec.engine.args",
        "must not contain <argument>: <remedy>",
    )


def test_the_longest_arguments_that_the_schema_allows_stay_within_the_cost_of_rules(create: Create) -> None:
    # Arguments that look like options up to their end cost most.
    longest = ["--" + "_" * 2046] * 64
    parts = ("engine", "prefill", "decode", "frontDoor")
    body = resource({"spec": {part: {"args": longest} for part in parts}})

    assert len(create(body)["spec"]["frontDoor"]["args"]) == 64


_PARALLELISMS = st.sampled_from(
    [
        *({"tensor": size} for size in (1, 2, 3, 4, 8, 16)),
        *({"tensor": size, "data": ranks} for size, ranks in ((1, 1), (1, 8), (2, 4), (4, 4), (8, 16))),
    ]
)
_BOUNDS = st.fixed_dictionaries({}, optional={"minReplicas": st.integers(0, 2), "maxReplicas": st.integers(0, 4)})
_ROLE = st.fixed_dictionaries(
    {}, optional={"parallelism": _PARALLELISMS, "replicas": st.integers(0, 4), "autoscaling": _BOUNDS}
)
_RATIOS = st.sampled_from(["1/4", "1/3", "2/3", "1/1", "2/1", "99/99"])
_DEVICES = st.fixed_dictionaries(
    {
        "accelerator": st.fixed_dictionaries(
            {"instanceType": st.sampled_from(INSTANCE_TYPES)},
            optional={
                "gpusPerPod": st.sampled_from([0, 1, 2, 8]),
                "efa": st.sampled_from(
                    [{}, {"perPod": 0}, {"perPod": 1}, {"perPod": 16}, {"resource": "example.com/efa"}]
                ),
                "hugepages2Mi": st.sampled_from(["1Mi", "2Mi", "2048", "5120Mi", "64Gi"]),
                "resourceClaims": st.just([{"name": "devices", "resourceClaimTemplateName": "gpus-and-efas"}]),
            },
        ),
        "prefill": _ROLE,
        "decode": _ROLE,
    },
    optional={
        "scaling": st.fixed_dictionaries(
            {},
            optional={
                "ratio": st.fixed_dictionaries({}, optional={"min": _RATIOS, "max": _RATIOS}),
                "gpuBudget": st.sampled_from([1, 8, 16, 64]),
                "drain": st.sampled_from([{}, {"timeout": "5s"}, {"timeout": "4s"}]),
            },
        ),
        "transfer": st.fixed_dictionaries(
            {},
            optional={
                "protocol": st.sampled_from(["Push", "NixlPull"]),
                "backend": st.sampled_from(["UCX", "LIBFABRIC"]),
                "deadline": st.sampled_from(["0s", "0.5ms", "1m", "30m", "1h"]),
                "landingFraction": st.sampled_from(["0%", "25%", "100%"]),
                "peersPerDecode": st.sampled_from([1, 15, 16, 255]),
                "reverse": st.sampled_from(["Push", "Disabled"]),
            },
        ),
    },
)
"""What rules and planning both judge, from few values so that many combinations are valid."""


_CAREFREE = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@_CAREFREE
@given(st.data())
def test_planning_refuses_nothing_that_the_api_server_takes(create: Create, data: st.DataObject) -> None:
    body = resource({"spec": data.draw(_DEVICES)})
    try:
        taken = create(body)
    except UnprocessableEntityException:
        event("refused")
        return
    event("taken")
    taken["metadata"].setdefault("uid", "1")

    resolve(DisaggregatedInference.model_validate(taken), Defaults("front-door", "connector"))


def test_an_unknown_field_is_refused_when_the_client_asks_for_strictness(api: client.ApiClient) -> None:
    body = resource({"spec": {"prefil": {}}})

    with pytest.raises(ApiException, match=r'unknown field \\"spec.prefil\\"'):
        _create(api, body, field_validation="Strict")


def test_every_rule_of_the_definition_has_a_refusal() -> None:
    tested = [(_without_indexes(refusal.field), refusal.message) for refusal in RULE_REFUSALS]

    untested = [
        (field, message)
        for field, message in _rules(RESOURCE.schema(), "")
        if not any(field == at and re.fullmatch(_any_value(message), words) for at, words in tested)
    ]

    assert untested == []


def _rules(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Field and message of every rule, with `[]` for the items of a list."""
    for rule in schema.get("x-kubernetes-validations", ()):
        yield (path + rule.get("fieldPath", "")).removeprefix("."), rule["message"]
    for name, each in schema.get("properties", {}).items():
        yield from _rules(each, f"{path}.{name}")
    if "items" in schema:
        yield from _rules(schema["items"], f"{path}[]")


def _any_value(message: str) -> str:
    """A pattern for the message with any values in the places of `<name>`."""
    return re.sub(r"<\w+>", ".+", re.escape(message))


def _without_indexes(field: str) -> str:
    return re.sub(r"\[\d+\]", "[]", field)


def _without_verdict(message: str) -> str:
    return re.sub(r"^(Forbidden|Invalid value): ", "", message)
