# SPDX-License-Identifier: Apache-2.0
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tandem_operator.api.names import KIND
from tandem_operator.kubectl.__main__ import main
from tandem_operator.kubectl.exits import Exit
from tandem_operator.kubectl.views.render import Unplannable, render, resources_of
from tandem_operator.plan.plan import plan
from tandem_operator.plan.types import Observed
from tests.builders import DEFAULTS, NOW, a_resource

FOLDER = Path(__file__).parents[2] / "manifests" / "samples"
SAMPLES = [path for path in sorted(FOLDER.glob("*.yaml")) if f"kind: {KIND}" in path.read_text()]


def test_what_is_rendered_is_what_the_operator_plans() -> None:
    resource = a_resource().build()
    planned = plan(Observed(resource=resource, at=NOW), DEFAULTS)
    rendered = render(resource, DEFAULTS, NOW)
    names = [(each["kind"], each["metadata"]["name"]) for each in rendered]
    assert names[0][0] == "Secret"
    assert names[1:] == [(each["kind"], each["metadata"]["name"]) for each in planned.objects]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_each_sample_renders_to_yaml_without_a_cluster(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "-f", str(sample), "-n", "models"]) == Exit.WELL
    text = capsys.readouterr().out
    documents = list(yaml.safe_load_all(text))
    assert {"StatefulSet", "Service", "Secret"} <= {each["kind"] for each in documents}
    assert {each["metadata"]["namespace"] for each in documents} == {"models"}
    assert "&id" not in text, "an anchor is harder to read than what it stands for"


def test_json_is_a_list_that_kubectl_reads(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "-f", str(SAMPLES[0]), "-o", "json"]) == Exit.WELL
    assert json.loads(capsys.readouterr().out)["kind"] == "List"


def test_other_objects_of_the_file_are_left_out_and_lists_are_opened() -> None:
    documents = [None, {"kind": "Service"}, {"kind": "List", "items": [a_resource("in-a-list").manifest()]}]
    assert [each.metadata.name for each in resources_of(documents, "models")] == ["in-a-list"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("kind: Service", "there is no DisaggregatedInference in it"),
        ("a: [", "while parsing"),
        (yaml.safe_dump(a_resource().with_spec("model", value={}).manifest()), "spec.model.name: Field required"),
        (yaml.safe_dump(a_resource().on("p5en.48xlarge").with_tensor(16).manifest()), "more than the 8 of a p5en"),
    ],
)
def test_a_file_that_cannot_be_acted_on_is_a_usage_error(
    text: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "resource.yaml"
    file.write_text(text)
    assert main(["render", "-f", str(file)]) == Exit.USAGE
    assert complaint in capsys.readouterr().err


def test_a_spec_that_contradicts_itself_is_named_with_its_resource() -> None:
    with pytest.raises(Unplannable, match=r"^qwen: spec\."):
        render(a_resource().on("p5en.48xlarge").with_tensor(16).build(), DEFAULTS, NOW)


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    command = f"'{sys.executable}' -m tandem_operator.kubectl render -f '{SAMPLES[0]}'; echo status $? >&2"
    words = ["bash", "-c", f"({command}) | head -c 1"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.strip() == "status 0"
