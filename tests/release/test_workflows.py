# SPDX-License-Identifier: Apache-2.0
"""What can be said of the workflows without GitHub; actionlint, in `make check`, says whether they are workflows."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.__main__ import ROOT
from e2e.images.catalogue import WITH_DOCKERFILE
from e2e.release.chart import SOURCE_REGISTRY

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yaml"))
RELEASE: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text())
each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def _steps(job: str, action: str) -> list[dict[str, Any]]:
    return [step for step in RELEASE["jobs"][job]["steps"] if step.get("uses", "").startswith(f"{action}@")]


@each_workflow
def test_actions_are_pinned_by_commit_and_the_same_everywhere(path: Path) -> None:
    used = re.findall(r"uses: (\S+)@(\S+)( # v[\d.]+)?$", path.read_text(), re.MULTILINE)
    everywhere = {match for each in WORKFLOWS for match in re.findall(r"uses: (\S+)@(\S+)", each.read_text())}

    assert [name for name, commit, tag in used if not re.fullmatch(r"[0-9a-f]{40}", commit) or not tag] == []
    assert len({name for name, _ in everywhere}) == len(everywhere)


@each_workflow
def test_a_workflow_may_only_read_unless_a_job_needs_more(path: Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}


@each_workflow
def test_what_others_write_is_no_part_of_a_script(path: Path) -> None:
    jobs = yaml.safe_load(path.read_text())["jobs"].values()

    assert [step["run"] for job in jobs for step in job["steps"] if "${{" in step.get("run", "")] == []


def test_all_images_that_have_a_dockerfile_and_are_the_charts_are_built_for_both_architectures() -> None:
    values = (ROOT / "charts/tandem/values.yaml").read_text()
    of_the_chart = set(re.findall(rf"repository: {SOURCE_REGISTRY}/(\S+)$", values, re.MULTILINE))
    [build] = _steps("images", "docker/build-push-action")

    assert set(RELEASE["jobs"]["images"]["strategy"]["matrix"]["image"]) == of_the_chart
    assert of_the_chart <= {image.name for image in WITH_DOCKERFILE}
    assert build["with"]["platforms"] == "linux/amd64,linux/arm64"
    assert all((ROOT / f"e2e/images/dockerfiles/{name}.Dockerfile").exists() for name in of_the_chart)


def test_images_have_an_sbom_and_provenance() -> None:
    [build] = _steps("images", "docker/build-push-action")

    assert (build["with"]["sbom"], build["with"]["provenance"]) == (True, "mode=max")


@pytest.mark.parametrize("job", ["images", "chart"])
def test_what_is_pushed_is_signed_by_digest_without_a_key_and_attested(job: str) -> None:
    [signing] = [step["run"] for step in RELEASE["jobs"][job]["steps"] if "cosign sign" in step.get("run", "")]

    assert "@$DIGEST" in signing
    assert "--key" not in signing
    assert _steps(job, "actions/attest-build-provenance")
    assert RELEASE["jobs"][job]["permissions"]["id-token"] == "write"


def test_packages_are_published_by_trust_and_without_a_token() -> None:
    job = RELEASE["jobs"]["pypi"]
    [publishing] = _steps("pypi", "pypa/gh-action-pypi-publish")

    assert job["permissions"] == {"id-token": "write"}
    assert job["environment"] == "pypi"
    assert "with" not in publishing


@pytest.mark.parametrize("job", sorted(set(RELEASE["jobs"]) - {"check"}))
def test_nothing_is_built_or_published_before_the_tag_was_checked(job: str) -> None:
    def before(name: str) -> set[str]:
        needs = RELEASE["jobs"][name].get("needs", [])
        direct = {needs} if isinstance(needs, str) else set(needs)
        return direct.union(*map(before, direct)) if direct else direct

    assert "check" in before(job)


def test_packages_wait_for_all_else_since_a_version_on_pypi_can_not_be_taken_back() -> None:
    assert {"images", "chart"} <= set(RELEASE["jobs"]["pypi"]["needs"])
