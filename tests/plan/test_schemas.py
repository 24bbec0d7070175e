# SPDX-License-Identifier: Apache-2.0
"""Everything generated is valid against Kubernetes' own schemas, without a field that the server wouldn't know."""

from collections.abc import Iterator
from functools import cache

import kubernetes_validate
import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from tandem_operator.api.crd import SCALER
from tandem_operator.api.names import SCALER_KIND
from tandem_operator.plan.plan import plan
from tests.builders import DEFAULTS, observed
from tests.builders.resources import ResourceBuilder
from tests.plan.strategies import resources

VERSIONS = ("1.35", "1.36", "1.37")


@pytest.fixture(scope="module", autouse=True)
def schemas_read_once() -> Iterator[None]:
    """The library parses 3 MB of JSON for every object."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kubernetes_validate.utils, "schema_contents", cache(kubernetes_validate.utils.schema_contents))
        yield


@given(resource=resources())
@settings(max_examples=40, deadline=None)
def test_every_object_of_any_resource_is_valid_in_every_supported_version(resource: ResourceBuilder) -> None:
    for manifest in plan(observed(resource), DEFAULTS).objects:
        if manifest["kind"] == SCALER_KIND:
            continue
        for version in VERSIONS:
            kubernetes_validate.validate(manifest, version, strict=True)


@given(resource=resources())
@settings(max_examples=40, deadline=None)
def test_every_new_scaler_of_any_resource_fits_its_definition(resource: ResourceBuilder) -> None:
    for scaler in plan(observed(resource), DEFAULTS).new:
        Draft202012Validator(SCALER.schema()).validate(scaler)


def test_the_check_notices_a_field_that_kubernetes_does_not_know() -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "dataa": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, VERSIONS[0], strict=True)
