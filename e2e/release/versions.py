# SPDX-License-Identifier: Apache-2.0
"""The version, which a tag names and the sources say in several places."""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

PLACES: Final = (
    ("operator/pyproject.toml", r'^version = "(.+)"$'),
    ("operator/pyproject.toml", r'"tandem-connector==(.+)"'),
    ("connector/pyproject.toml", r'^version = "(.+)"$'),
    ("charts/tandem/Chart.yaml", r"^version: (.+)$"),
    ("charts/tandem/Chart.yaml", r"^appVersion: (.+)$"),
    ("operator/src/tandem_operator/settings.py", r'front_door_image: str = ".+:(.+)"'),
    ("operator/src/tandem_operator/settings.py", r'connector_image: str = ".+:(.+)"'),
)
"""File, and what the version is in; images, Dockerfiles and the lock are derived from these."""

TAG: Final = re.compile(r"v(\d+\.\d+\.\d+(?:-(?:alpha|beta|rc)\.\d+)?)")
"""As SemVer, which Helm asks for, with pre-releases that PEP 440 has too."""


class NotReleasableError(Exception):
    """What the tag says isn't what the sources say; the text names all that differs."""


def version_of(tag: str) -> str:
    """The version that a tag names.

    Raises:
        NotReleasableError: it names none.
    """
    match = TAG.fullmatch(tag)
    if match is None:
        raise NotReleasableError(f"{tag} is no tag of a version, as v1.2.3 or v1.2.3-rc.1")
    return match[1]


def stated(root: Path = ROOT) -> list[tuple[str, str]]:
    """Each place and the version that it states.

    Raises:
        NotReleasableError: a place states none.
    """
    found = []
    for path, pattern in PLACES:
        match = re.search(pattern, (root / path).read_text(encoding="utf-8"), re.MULTILINE)
        if match is None:
            raise NotReleasableError(f"{path} states no version by {pattern}")
        found.append((path, match[1]))
    return found


def check_versions(version: str, root: Path = ROOT) -> None:
    """Hold all places to the version.

    Raises:
        NotReleasableError: one states another.
    """
    if others := sorted({f"{path} says {each}" for path, each in stated(root) if each != version}):
        raise NotReleasableError(f"the tag says {version}, but {', '.join(others)}")
