# SPDX-License-Identifier: Apache-2.0
"""Values: described, used, closed to unknown keys, and in step with the operator's settings."""

from pathlib import Path

import pytest
import yaml

from charts.__main__ import ROOT, derived_files
from charts.values import UndescribedValueError, Value, described_values
from tandem_operator.settings import Settings
from tests.chart.other_values import ONLY_WITH, OTHER_VALUES, merged, nested
from tests.chart.rendering import CHART, HelmError, environment, operator_container, render

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
DESCRIBED = described_values((CHART / "values.yaml").read_text())

SET_BY_THE_CHART = {
    "connector_image": "connectorImage",
    "front_door_image": "frontDoorImage",
    "identity": "the pod's name",
    "lease_name": "the release's name, to which the Role is limited",
    "namespaces": "watch.namespaces",
}
LEFT_ALONE = {
    "http_host": "probes and metrics come from outside of the pod",
    "http_port": "the container's port has a name, by which all refer to it",
    "kubeconfig": "the pod has a service account",
    "lease_namespace": "the default is the pod's, where the Role is",
}


@pytest.mark.parametrize("value", DESCRIBED, ids=lambda value: value.path)
def test_every_value_changes_what_is_made(value: Value) -> None:
    base = ONLY_WITH.get(value.path, {})

    assert render(merged(base, nested(value.path, OTHER_VALUES[value.path]))) != render(base)


def test_no_value_is_tried_that_is_not_there() -> None:
    assert [value.path for value in DESCRIBED] == list(OTHER_VALUES)


@pytest.mark.parametrize("path", ["replica", "image.tags", "settings.worker", "crds.keepp", "resources.request"])
def test_an_unknown_key_is_refused(path: str) -> None:
    with pytest.raises(HelmError, match=rf"additional properties '{path.rpartition('.')[2]}' not allowed"):
        render(nested(path, 1))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("replicas", 0),
        ("image.digest", "sha256:1"),
        ("image.pullPolicy", "Sometimes"),
        ("watch.namespaces", ["Team A"]),
        ("settings.logLevel", "loud"),
        ("settings.workers", 0),
        ("settings.resync", "10m"),
        ("serviceMonitor.interval", "often"),
        ("priorityClass.name", "system-mine"),
        ("enginePriorityClass.value", 2_000_000_000),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(path: str, value: object) -> None:
    with pytest.raises(HelmError, match=f"at '/{path.replace('.', '/')}"):
        render(nested(path, value))


def test_every_setting_of_the_operator_can_be_reached() -> None:
    reached = {_snake_case(name) for name in VALUES["settings"]}

    assert set(Settings.model_fields) == reached | SET_BY_THE_CHART.keys() | LEFT_ALONE.keys()


def test_the_charts_defaults_are_the_operators() -> None:
    defaults = {name: field.get_default(call_default_factory=True) for name, field in Settings.model_fields.items()}

    assert {_snake_case(name): value for name, value in VALUES["settings"].items()} == {
        _snake_case(name): defaults[_snake_case(name)] for name in VALUES["settings"]
    }
    assert environment(render())["TANDEM_FRONT_DOOR_IMAGE"] == defaults["front_door_image"]
    assert environment(render())["TANDEM_CONNECTOR_IMAGE"] == defaults["connector_image"]


def test_the_operator_reads_what_the_chart_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"watch": {"namespaces": ["team-a", "team-b"]}, "settings": {"leaseRetry": 1.5, "logFormat": "text"}}
    for name, value in environment(render(values)).items():
        monkeypatch.setenv(name, value)

    settings = Settings()

    assert settings.namespaces == ("team-a", "team-b")
    assert (settings.lease_retry, settings.log_format, settings.lease_name) == (1.5, "text", "tandem")


def test_a_pod_holds_the_lease_under_its_own_name() -> None:
    [identity] = [each for each in operator_container(render())["env"] if each["name"] == "TANDEM_IDENTITY"]

    assert identity["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def test_a_value_without_a_comment_is_refused() -> None:
    with pytest.raises(UndescribedValueError, match=r"b\.c has no comment"):
        described_values("# A.\na: 1\nb:\n  c: 2\n  # D.\n  d: 3\n")


def test_a_comment_of_several_lines_is_one_description() -> None:
    assert described_values("# One,\n# two.\na: {b: 1}\n") == [Value("a", {"b": 1}, "One, two.")]


FILES = derived_files()


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_file_that_is_derived_from_the_chart_is_up_to_date(path: Path) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == FILES[path], "run `make generate` and commit the result"
