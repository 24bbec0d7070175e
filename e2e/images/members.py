# SPDX-License-Identifier: Apache-2.0
"""The workspace's own distributions: where they are, and what tells one state of them from another."""

import tomllib
from functools import cache
from pathlib import Path

from e2e.cache import key_of
from e2e.images.declaration import REPOSITORY


@cache
def member_folders() -> dict[str, Path]:
    """Folders of the workspace's members by the names of their distributions."""
    workspace = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["uv"]["workspace"]
    folders = [REPOSITORY / member for member in workspace["members"]]
    return {tomllib.loads((folder / "pyproject.toml").read_text())["project"]["name"]: folder for folder in folders}


def member_key(name: str) -> str:
    """A hash of all that the wheel of the member `name` is built from."""
    folder = member_folders()[name]
    files = sorted(
        path for path in folder.rglob("*") if path.is_file() and not {"__pycache__", "dist"} & set(path.parts)
    )
    return key_of(*(part for path in files for part in (path.relative_to(folder).as_posix(), path)))
