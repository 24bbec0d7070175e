# SPDX-License-Identifier: Apache-2.0
"""From declarations to archives. Layers are kept in the cache, each under what it is made of."""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.cache import built_once, cache_root, key_of
from e2e.images import debian
from e2e.images.archive import Blob, image_digest, layer_blob, write_archive
from e2e.images.bytecode import compiled
from e2e.images.declaration import PYTHON, Image, Venv, Wheels
from e2e.images.members import member_key
from e2e.images.skeleton import skeleton
from e2e.images.tree import Tree, folder_tree, read_layer, tree_key, write_layer
from e2e.images.wheels import installed_members, installed_requirements, locked_requirements

_RECIPE = "1"
"""Changed when the same inputs shall give other layers."""
_KEPT = 3
"""Archives of one image that stay in the cache: what a cluster may be loading just now, and a few before it."""


@dataclass(frozen=True)
class BuiltImage:
    """An archive on disk."""

    image: Image
    archive: Path
    digest: str

    @property
    def size(self) -> int:
        """Bytes of the archive, which is not compressed."""
        return self.archive.stat().st_size


def build_image(image: Image, output: Path | None = None, *, engine_environment: Path | None = None) -> BuiltImage:
    """The archive of `image`, built as far as the cache does not have it.

    Args:
        image: What to build.
        output: Folder for the archive, which is called `NAME.tar`; by default a folder of the cache.
        engine_environment: A `site-packages` folder that becomes a layer, in the image's venv; 6 GB for a CPU engine.

    Raises:
        BuildError: apt, a lock file or an index could not give what the image is made of.
    """
    layers = [layer_blob(path) for path in _layers(image, engine_environment)]
    digest = image_digest(image, layers)
    if output is None:
        name = f"images-{digest.removeprefix('sha256:')[:16]}"
        folder = built_once(name, lambda place: _write(image, layers, place))
        _forget_all_but_newest(image, folder)
    else:
        folder = output
        _write(image, layers, folder)
    return BuiltImage(image, folder / f"{image.name}.tar", digest)


def _write(image: Image, layers: Sequence[Blob], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".{image.name}.unfinished"
    write_archive(image, layers, unfinished)
    unfinished.rename(folder / f"{image.name}.tar")


def _forget_all_but_newest(image: Image, used: Path) -> None:
    os.utime(used)
    archives = cache_root().glob(f"images-*/{image.name}.tar")
    by_use = sorted((archive.parent for archive in archives), key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in by_use[_KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)


def _layers(image: Image, engine_environment: Path | None) -> list[Path]:
    """Bottom up, what changes least first."""
    packages = debian.fetched(image.packages)
    layers = [
        _layer(
            f"{image.name}: {len(packages)} Debian packages",
            [package.name for package in packages],
            lambda: _system(packages),
        )
    ]
    if image.venv and engine_environment:
        layers.append(_environment(image.venv, engine_environment))
    if image.wheels and image.wheels.dependencies:
        layers.append(_dependencies(image, image.wheels, layers[0]))
    layers.append(_own(image, layers[0]))
    return layers


def _system(packages: Sequence[Path]) -> Tree:
    tree = debian.unpacked(packages)
    return tree | compiled(tree, tree) if f"usr/bin/{PYTHON}" in tree else tree


def _dependencies(image: Image, wheels: Wheels, system: Path) -> Path:
    requirements = locked_requirements(wheels)

    def build() -> Tree:
        tree = installed_requirements(requirements, wheels.folder)
        return tree | compiled(tree, read_layer(system))

    return _layer(f"{image.name}: locked wheels", [requirements, str(wheels.folder), system.name], build)


def _own(image: Image, system: Path) -> Path:
    wheels, frame = image.wheels, skeleton(image)

    def build() -> Tree:
        if wheels is None or not wheels.own:
            return frame
        tree = installed_members(wheels)
        if wheels.compiled:
            tree |= compiled(tree, read_layer(system))
        return tree | frame

    inputs = [tree_key(frame), system.name, *map(member_key, wheels.own if wheels else ())]
    return _layer(f"{image.name}: own files", inputs, build)


def _environment(venv: Venv, site_packages: Path) -> Path:
    folder = str(venv.site_packages).lstrip("/")
    # The folder above is named by the hash of the environment's lock file.
    return _layer(
        f"the engine environment, {site_packages}",
        [str(site_packages), folder],
        lambda: folder_tree(site_packages, folder),
    )


def _layer(what: str, inputs: Sequence[str], build: Callable[[], Tree]) -> Path:
    def make(target: Path) -> None:
        print(f"building a layer: {what}", file=sys.stderr, flush=True)
        write_layer(build(), target)

    return built_once(f"layer-{key_of(_RECIPE, *inputs)}.tar", make)
