# SPDX-License-Identifier: Apache-2.0
"""Renders the chart as `helm install` would, without a cluster."""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.tools import helm_path

CHART = Path(__file__).parents[2] / "charts" / "tandem"
RELEASE = "tandem"
NAMESPACE = "tandem-system"
Manifest = dict[str, Any]


class HelmError(Exception):
    """Helm refused; the text is its own."""


def render(
    values: dict[str, Any] | None = None, *, release: str = RELEASE, kubernetes: str = "1.35.4"
) -> list[Manifest]:
    """The objects that the chart makes of the values.

    Raises:
        HelmError: the values don't fit the schema, or the chart doesn't fit the version of Kubernetes.
    """
    return [each for each in yaml.safe_load_all(_rendered(json.dumps(values or {}), release, kubernetes)) if each]


@cache
def _rendered(values: str, release: str, kubernetes: str) -> str:
    command = [
        str(helm_path()),
        "template",
        release,
        str(CHART),
        "--namespace",
        NAMESPACE,
        "--kube-version",
        kubernetes,
    ]
    done = subprocess.run([*command, "--values", "-"], input=values, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HelmError(done.stderr)
    return done.stdout


def one(objects: list[Manifest], kind: str, name: str = "tandem") -> Manifest:
    """The object of this kind and name."""
    [found] = [each for each in objects if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def kinds(objects: list[Manifest]) -> set[str]:
    return {each["kind"] for each in objects}


def operator_container(objects: list[Manifest]) -> Manifest:
    container: Manifest = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    return container


def environment(objects: list[Manifest]) -> dict[str, str]:
    """The operator's variables that have a plain value."""
    return {each["name"]: each["value"] for each in operator_container(objects)["env"] if "value" in each}
