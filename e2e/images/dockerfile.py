# SPDX-License-Identifier: Apache-2.0
"""Dockerfiles for those who have a container engine and a registry, from the same declarations as the archives."""

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from e2e.images.declaration import REPOSITORY, Image, Wheels
from e2e.images.members import member_folders
from e2e.images.skeleton import links, text_files
from e2e.images.wheels import export_words

FOLDER = REPOSITORY / "e2e" / "images" / "dockerfiles"
_UV_VERSION = version("uv")
"""The one that `uv.lock` pins."""
_DEBIAN = "debian:12-slim"
_IN_DEBIAN = frozenset({"base-files", "bash", "coreutils"})

_templates = Environment(
    # Nothing of this is HTML.
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    keep_trailing_newline=True,
    autoescape=False,
)


_templates.filters["quoted"] = lambda value: json.dumps(value, ensure_ascii=False)


def dockerfiles(image: Image) -> dict[str, str]:
    """The files for `image` by their names: the Dockerfile, and what is left out of its context, the repository."""
    name = f"{image.name}.Dockerfile"
    on_debian = image.published_base == _DEBIAN
    sources = _sources(image.wheels) if image.wheels else []
    text = _templates.get_template("dockerfile.j2").render(
        image=image,
        path=(FOLDER / name).relative_to(REPOSITORY).as_posix(),
        uv_version=_UV_VERSION,
        sources=sources,
        export=" ".join(export_words(image.wheels)) if image.wheels else "",
        packages=[each for each in image.packages if each not in _IN_DEBIAN] if on_debian else [],
        files=text_files(image),
        links=links(image) if on_debian else {},
    )
    allowed = "".join(f"!{source}\n" for source in sources)
    return {name: text, f"{name}.dockerignore": f"*\n{allowed}**/__pycache__\n"}


def write_dockerfiles(images: Sequence[Image], folder: Path = FOLDER) -> list[Path]:
    """Write the files of `images` into `folder` where they differ from what is there; those that did."""
    changed = []
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _all(images).items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            changed.append(path)
    return changed


def drifted(images: Sequence[Image], folder: Path = FOLDER) -> list[str]:
    """Names of the files in `folder` that are not what the declarations make: changed, missing, or of no image."""
    expected = _all(images)
    there = {path.name: path.read_text() for path in folder.iterdir()} if folder.exists() else {}
    return sorted(name for name in expected.keys() | there.keys() if expected.get(name) != there.get(name))


def _all(images: Sequence[Image]) -> dict[str, str]:
    return {name: text for image in images for name, text in dockerfiles(image).items()}


def _sources(wheels: Wheels) -> list[str]:
    """What of the repository the stage that makes the wheels reads."""
    if wheels.project.parts:
        return [f"{wheels.project.as_posix()}/{name}" for name in ("pyproject.toml", "uv.lock")]
    members = [folder.relative_to(REPOSITORY).as_posix() for folder in member_folders().values()]
    return ["pyproject.toml", "uv.lock", *members]
