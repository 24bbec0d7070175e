# SPDX-License-Identifier: Apache-2.0
"""Everything that is made for typical resources, to the byte.

Changes are shown by `pytest tests/plan/test_golden.py --update-golden` and read in the difference.
"""

from pathlib import Path

import pytest

from tandem_connector.contract.types import Role
from tandem_operator.api.text import as_yaml
from tandem_operator.plan.plan import plan
from tests.builders import DEFAULTS, a_resource, observed
from tests.builders.resources import ResourceBuilder

GOLDEN = Path(__file__).parents[1] / "golden"

RESOURCES = {
    "p5en-tp8": a_resource()
    .on("p5en.48xlarge")
    .with_tensor(8)
    .with_prefill(2)
    .with_decode(4)
    .with_arguments("--max-model-len=32768"),
    "p5en-tp4-hugepages": a_resource()
    .on("p5en.48xlarge")
    .with_tensor(4)
    .with_spec("accelerator", "hugepages2Mi", value="5120Mi")
    .with_spec("model", "source", value={"huggingFace": {"tokenSecretRef": {"name": "hub", "key": "token"}}}),
    "p5en-nixl-pull": a_resource()
    .on("p5en.48xlarge")
    .with_tensor(8, Role.DECODE)
    .with_tensor(4, Role.PREFILL)
    .pulling(),
    "cpu": a_resource()
    .with_image("tandem.dev/engine-cpu:0.1.0")
    .with_spec("model", value={"name": "tiny", "source": {"volume": {"hostPath": "/models", "subPath": "tiny"}}})
    .with_spec("engine", "env", value=[{"name": "UCX_TLS", "value": "tcp,self"}]),
}


@pytest.mark.parametrize("name", RESOURCES)
def test_the_manifests_of_a_typical_resource_are_those_of_the_golden_file(name: str, updates_golden: bool) -> None:
    file = GOLDEN / f"{name}.yaml"
    resource: ResourceBuilder = RESOURCES[name]

    objects = plan(observed(resource), DEFAULTS).objects

    text = "---\n".join(["# SPDX-License-Identifier: Apache-2.0\n", *(as_yaml(each) for each in objects)])
    if updates_golden:
        file.write_text(text)
    assert file.read_text() == text
