# SPDX-License-Identifier: Apache-2.0
"""A release is of the version that the tag, the sources and the changelog agree on."""

import shutil
from pathlib import Path

import pytest

from e2e.release.__main__ import main
from e2e.release.changelog import notes
from e2e.release.versions import PLACES, ROOT, NotReleasableError, check_versions, stated, version_of

CHANGELOG = """# Changelog

## Unreleased

### Added
* Something to come.

## 0.2.0 - 2026-01-31

### Added
* Something new.

## [0.1.0] - 2025-12-31
* The first.

## 0.0.9
* Without a date.

## 0.0.8 - 2025-01-01

### Added
"""


def test_the_sources_agree_on_a_version() -> None:
    assert len({version for _, version in stated()}) == 1


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for path, _ in PLACES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    return tmp_path


@pytest.mark.parametrize("path", sorted({path for path, _ in PLACES}))
def test_a_file_that_states_another_version_is_named(sources: Path, path: str) -> None:
    version = stated()[0][1]
    (sources / path).write_text((sources / path).read_text().replace(version, "9.9.9"))

    check_versions(version)
    with pytest.raises(NotReleasableError, match=rf"the tag says {version}, but {path} says 9\.9\.9$"):
        check_versions(version, sources)


@pytest.mark.parametrize(
    ("tag", "version"), [("v1.2.3", "1.2.3"), ("v10.0.0-rc.1", "10.0.0-rc.1"), ("v0.1.0-beta.12", "0.1.0-beta.12")]
)
def test_a_tag_names_a_version(tag: str, version: str) -> None:
    assert version_of(tag) == version


@pytest.mark.parametrize("tag", ["1.2.3", "v1.2", "v1.2.3.4", "v1.2.3-dev", "v1.2.3+local", "version", "v1.2.3\n"])
def test_another_tag_is_refused(tag: str) -> None:
    with pytest.raises(NotReleasableError, match="no tag of a version"):
        version_of(tag)


def test_a_releases_notes_are_its_section_of_the_changelog() -> None:
    assert notes(CHANGELOG, "0.2.0") == "### Added\n* Something new.\n"
    assert notes(CHANGELOG, "0.1.0") == "* The first.\n"


@pytest.mark.parametrize(
    ("version", "why"),
    [("0.3.0", "no section of 0.3.0"), ("0.0.9", "no date"), ("0.0.8", "says nothing"), ("0.2", "no section of 0.2:")],
)
def test_a_version_of_which_the_changelog_does_not_tell_is_refused(version: str, why: str) -> None:
    with pytest.raises(NotReleasableError, match=why):
        notes(CHANGELOG, version)


def test_a_tag_without_a_section_ends_the_release_with_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "v99.0.0"]) == 1
    assert "no section of 99.0.0" in capsys.readouterr().err
