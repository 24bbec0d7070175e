# SPDX-License-Identifier: Apache-2.0
"""One local cluster with the operator and one resource for all tests of this folder."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import chosen_cluster
from e2e.cluster.interface import Cluster
from e2e.cluster.progress import wait_until
from e2e.conversation import Turn
from e2e.engine.environment import build_environment
from e2e.engine.model import cached_model
from e2e.installation import engine_pods, install_operator, load_images
from e2e.kubectl import Kubectl
from e2e.ready import wait_until_ready
from e2e.sample import cpu_resource
from e2e.suite.engines.reference import plain_answers

STRUCTURED = (
    # The model finds all that isn't a word equally likely; a space between two words of JSON would be followed by another.
    '--structured-outputs-config={"backend": "xgrammar", "disable_any_whitespace": true}',
)
"""Arguments of the engines."""
TOOLS = ("--enable-auto-tool-choice", "--tool-call-parser=hermes", "--tool-strict-level=parameter")
"""Arguments of engines that take tools, and hold every call to its function's schema."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need engines and have time for them to start."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.engine)
            item.add_marker(pytest.mark.timeout(1200))
            if os.environ.get("CLUSTER", "local") in {"", "local"} and os.geteuid() != 0:
                item.add_marker(pytest.mark.skip(reason="a local node needs root: run `sudo make test`"))


@dataclass(frozen=True)
class Deployment:
    """A resource whose engines run."""

    cluster: Cluster
    kubectl: Kubectl
    resource: dict[str, Any]

    @property
    def name(self) -> str:
        """The resource's name."""
        name: str = self.resource["metadata"]["name"]
        return name

    def edit(self, spec: Mapping[str, object]) -> None:
        """Change these fields of the resource's spec; None takes one away."""
        self.kubectl.run("patch", "pdi", self.name, "--type=merge", "-p", json.dumps({"spec": spec}))

    def restart_with(self, *more: str) -> None:
        """Add these to its engines' arguments, and return when engines that have them are ready; at once if they are."""
        arguments = [*self.resource["spec"]["engine"]["args"], *more]
        if (self.kubectl.get("pdi", self.name) or {})["spec"]["engine"]["args"] != arguments:
            before = self._uids()
            self.edit({"engine": {"args": arguments}})
            wait_until("new pods alone", lambda: len(now := self._uids()) == len(before) and not before & now, 600)
        wait_until_ready(self.kubectl, self.name)

    def _uids(self) -> set[str]:
        return {pod["metadata"]["uid"] for pod in engine_pods(self.kubectl, self.name)}


@pytest.fixture(scope="package")
def reference(tmp_path_factory: pytest.TempPathFactory) -> list[Turn]:
    """The conversation as a plain engine answers it, before anything else takes the cores."""
    return plain_answers(build_environment(), cached_model(), tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="package")
def cluster(reference: list[Turn]) -> Iterator[Cluster]:
    """A cluster of its own with images and operator. A cluster that the demo left is ended first."""
    cluster = chosen_cluster()
    cluster.down()
    cluster.up()
    try:
        load_images(cluster, build_environment())
        install_operator(cluster)
        yield cluster
    finally:
        cluster.down()


@pytest.fixture(scope="package")
def deployment(cluster: Cluster) -> Deployment:
    """The CPU sample, ready, which says no more of JSON than it has to."""
    kubectl = Kubectl(cluster)
    resource = cpu_resource(cluster.facts(), build_environment(), cached_model())
    resource["spec"]["engine"]["args"] += STRUCTURED
    kubectl.apply(resource)
    wait_until_ready(kubectl, resource["metadata"]["name"])
    return Deployment(cluster, kubectl, resource)
