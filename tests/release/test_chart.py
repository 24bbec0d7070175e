# SPDX-License-Identifier: Apache-2.0
"""The published chart: the same one, with the images that were published."""

from pathlib import Path

import pytest
import yaml

from e2e.release.__main__ import main
from e2e.release.chart import published_values
from e2e.release.versions import NotReleasableError
from tests.chart.rendering import CHART

DIGESTS = {name: f"sha256:{number:064x}" for number, name in enumerate(("operator", "front-door", "connector-init"))}
REGISTRY = "registry.example/team"
VALUES = (CHART / "values.yaml").read_text()


def test_it_has_each_image_by_digest_at_the_registry_and_is_the_same_otherwise() -> None:
    before, after = yaml.safe_load(VALUES), yaml.safe_load(published_values(VALUES, REGISTRY, DIGESTS))

    for key, name in (("image", "operator"), ("frontDoorImage", "front-door"), ("connectorImage", "connector-init")):
        assert after[key].pop("repository") == f"{REGISTRY}/{name}"
        assert after[key].pop("digest") == DIGESTS[name]
        del before[key]["repository"], before[key]["digest"]
    assert after == before


@pytest.mark.parametrize(
    "digests",
    [
        {name: digest for name, digest in DIGESTS.items() if name != "operator"},
        {**DIGESTS, "nginx": DIGESTS["operator"]},
        {**DIGESTS, "operator": "latest"},
    ],
    ids=["one missing", "one too many", "no digest"],
)
def test_an_image_without_its_digest_is_refused(digests: dict[str, str]) -> None:
    with pytest.raises(NotReleasableError, match="digest"):
        published_values(VALUES, REGISTRY, digests)


def test_the_command_writes_a_chart_with_all_of_its_files(tmp_path: Path) -> None:
    target = tmp_path / "made" / "tandem"
    arguments = [f"{name}={digest}" for name, digest in DIGESTS.items()]

    assert main(["chart", "--registry", REGISTRY, "--output", str(target), *arguments]) == 0
    assert {path.relative_to(target) for path in target.rglob("*")} == {
        path.relative_to(CHART) for path in CHART.rglob("*")
    }
    assert f'digest: "{DIGESTS["front-door"]}"' in (target / "values.yaml").read_text()
