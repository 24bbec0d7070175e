# SPDX-License-Identifier: Apache-2.0
"""The generated definition, its copies and its reference pages."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator

from tandem_operator.api.base import ApiModel
from tandem_operator.api.crd import RESOURCE, SCALER, generated_files, main
from tandem_operator.api.reference import conditions_reference
from tandem_operator.api.scaler import ScalerSpec, ScalerStatus
from tandem_operator.api.schema import Schema
from tandem_operator.api.spec import Spec
from tandem_operator.api.status import ConditionType, Reason, Status
from tests.api.strategies import objects_of

ROOT = Path(__file__).parents[2]

_SPEC = RESOURCE.schema()["properties"]["spec"]
_STATUS = RESOURCE.schema()["properties"]["status"]
_SCALER_SPEC = SCALER.schema()["properties"]["spec"]
_SCALER_STATUS = SCALER.schema()["properties"]["status"]

PATIENT = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


FILES = generated_files()


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_generated_file_is_what_the_models_say_now(path: Path) -> None:
    assert (ROOT / path).read_bytes() == FILES[path].encode(), "run `make generate` and commit the result"


def _wire(model: ApiModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _valid(schema: Schema) -> Draft202012Validator:
    return Draft202012Validator(schema)


@PATIENT
@given(objects_of(_SPEC))
def test_every_spec_that_the_schema_allows_is_read_and_written_back_within_the_schema(wire: dict[str, Any]) -> None:
    spec = Spec.model_validate(wire)

    _valid(_SPEC).validate(_wire(spec))
    assert Spec.model_validate(_wire(spec)) == spec


@PATIENT
@given(objects_of(_SPEC))
def test_reading_a_spec_loses_no_field(wire: dict[str, Any]) -> None:
    assert _leaves(_wire(Spec.model_validate(wire))) >= _leaves(wire)


@PATIENT
@given(objects_of(_STATUS))
def test_every_status_that_the_schema_allows_is_read_and_written_back_within_the_schema(wire: dict[str, Any]) -> None:
    status = Status.model_validate(wire)

    _valid(_STATUS).validate(_wire(status))
    assert _leaves(_wire(status)) >= _leaves(wire)


@PATIENT
@given(objects_of(_SCALER_SPEC), objects_of(_SCALER_STATUS))
def test_every_scaler_that_the_schema_allows_is_read_and_written_back(spec: dict[str, Any], status: Any) -> None:
    assert _wire(ScalerSpec.model_validate(spec)) == spec
    written = _wire(ScalerStatus.model_validate(status))

    _valid(_SCALER_STATUS).validate(written)
    assert _leaves(written) >= _leaves(status)


def _leaves(value: Any, path: str = "") -> set[tuple[str, str]]:
    """Path and text of every leaf; a number is as good as its text, and an empty list as none."""
    match value:
        case dict():
            return {leaf for key, each in value.items() for leaf in _leaves(each, f"{path}.{key}")}
        case list():
            return {leaf for index, each in enumerate(value) for leaf in _leaves(each, f"{path}[{index}]")}
    return {(path, str(value))}


def _nodes(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, each in schema.get("properties", {}).items():
        yield from _nodes(each, f"{path}.{name}")
    if "items" in schema:
        yield from _nodes(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _nodes(schema["additionalProperties"], f"{path}.*")


_NODES = [
    *_nodes(_SPEC, "spec"),
    *_nodes(_STATUS, "status"),
    *_nodes(_SCALER_SPEC, "scaler.spec"),
    *_nodes(_SCALER_STATUS, "scaler.status"),
]


def test_every_field_has_a_meaning() -> None:
    named = [(path, node) for path, node in _NODES if not path.endswith(("[]", ".*"))]

    assert [path for path, node in named if not node.get("description")] == []


def test_every_text_list_and_map_of_the_spec_has_a_bound() -> None:
    bounds = {"string": {"maxLength", "enum", "pattern"}, "array": {"maxItems"}}

    unbounded = [
        path for path, node in _nodes(_SPEC, "spec") if not bounds.get(node.get("type", ""), {""}) & {*node, ""}
    ]

    assert unbounded == []
    maps = [(path, node) for path, node in _nodes(_SPEC, "spec") if "additionalProperties" in node]
    assert [path for path, node in maps if "maxProperties" not in node] == []


def test_every_list_says_how_two_writers_are_merged() -> None:
    lists = [(path, node) for path, node in _NODES if node.get("type") == "array"]

    assert [path for path, node in lists if node.get("x-kubernetes-list-type") not in {"atomic", "map"}] == []


def test_every_whole_number_says_its_size() -> None:
    numbers = [(path, node) for path, node in _NODES if node.get("type") == "integer"]

    assert [path for path, node in numbers if node.get("format") not in {"int32", "int64"}] == []


def test_no_default_is_written_into_stored_objects() -> None:
    assert [path for path, node in _NODES if "default" in node] == []


def test_the_definition_names_what_users_type() -> None:
    spec = RESOURCE.manifest()["spec"]

    assert spec["names"]["shortNames"] == ["pdi"]
    assert spec["names"]["categories"] == ["tandem"]
    [version] = spec["versions"]
    assert version["subresources"] == {"status": {}}
    assert [(column["name"], column.get("priority", 0)) for column in version["additionalPrinterColumns"]] == [
        ("Ready", 0),
        ("Prefill", 0),
        ("Decode", 0),
        ("Verified", 0),
        ("Model", 1),
        ("Age", 0),
    ]


def test_the_scalers_definition_has_what_an_autoscaler_needs() -> None:
    spec = SCALER.manifest()["spec"]

    assert spec["names"]["shortNames"] == ["pdscaler"]
    [version] = spec["versions"]
    assert version["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }
    assert _SCALER_SPEC["required"] == ["replicas"], "the scale subresource fails where it is absent"


def test_the_generated_definition_fits_a_client_side_apply() -> None:
    # kubectl keeps the whole object in an annotation, which may have 262,144 bytes.
    assert len(FILES[Path("crds/tandem.dev_disaggregatedinferences.yaml")]) < 200_000


def test_the_page_of_conditions_has_every_type_and_reason() -> None:
    page = conditions_reference()

    missing = [member.value for member in (*ConditionType, *Reason) if f"| `{member.value}` |" not in page]

    assert missing == []


def test_check_says_what_differs_and_write_puts_it_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "crds").mkdir()
    root = ["--root", str(tmp_path)]
    stale = tmp_path / "crds/tandem.dev_disaggregatedinferences.yaml"

    assert main(["write", *root]) == 0
    assert main(["check", *root]) == 0
    stale.write_text("kind: Other\n")
    capsys.readouterr()

    assert main(["check", *root]) == 1
    assert capsys.readouterr().out == "differs from the models: crds/tandem.dev_disaggregatedinferences.yaml\n"
    assert main(["write", *root]) == 0
    assert yaml.safe_load(stale.read_text()) == RESOURCE.manifest()
