# SPDX-License-Identifier: Apache-2.0
"""Images that are really built: small ones, twice."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from e2e.cache import cache_root
from e2e.images.build import build_image
from e2e.images.catalogue import CONNECTOR_INIT, IMAGES
from e2e.images.declaration import REPOSITORY, Image, TextFile, Venv
from e2e.images.members import member_key
from e2e.images.tree import File, Tree, read_layer

DOWNLOADS = cache_root() / "debian-packages"

SMALL = Image(
    name="small",
    version="1",
    summary="One package and one file",
    packages=("busybox-static",),
    files=(TextFile(PurePosixPath("/start"), "#!/bin/sh\n", executable=True),),
    links={PurePosixPath("/usr/bin/sh"): "busybox"},
    entrypoint=("/start",),
)

needs_apt = pytest.mark.skipif(not shutil.which("apt-get"), reason="needs Debian's apt-get and a package archive")


@pytest.fixture
def new_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, but for what apt has downloaded."""
    root = tmp_path / "a cache"
    root.mkdir()
    DOWNLOADS.mkdir(parents=True, exist_ok=True)
    (root / "debian-packages").symlink_to(DOWNLOADS)
    monkeypatch.setenv("TANDEM_CACHE", str(root))
    return root


def layers_of(cache: Path) -> Tree:
    tree: Tree = {}
    for layer in cache.glob("layer-*.tar"):
        tree |= read_layer(layer)
    return tree


@needs_apt
@pytest.mark.parametrize("image", [SMALL, CONNECTOR_INIT], ids=lambda image: image.name)
def test_building_from_nothing_twice_gives_the_same_bytes(image: Image, new_cache: Path, tmp_path: Path) -> None:
    first = build_image(image, tmp_path / "one")
    for layer in new_cache.glob("layer-*.tar"):
        layer.unlink()
    second = build_image(image, tmp_path / "two")

    assert first.digest == second.digest
    assert first.archive.read_bytes() == second.archive.read_bytes()


@needs_apt
def test_the_cache_gives_an_image_again_without_building(new_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = build_image(SMALL)
    built = capsys.readouterr().err
    second = build_image(SMALL)

    assert second == first
    assert "building a layer" in built
    assert capsys.readouterr().err == ""


@needs_apt
def test_the_connector_image_has_the_package_and_an_honest_list_of_its_files(new_cache: Path) -> None:
    build_image(CONNECTOR_INIT)
    tree = layers_of(new_cache)
    folder = "opt/tandem-connector"
    (record,) = [node for path, node in tree.items() if path.endswith(".dist-info/RECORD")]
    assert isinstance(record, File)
    assert isinstance(record.content, bytes)
    listed = {line.split(",")[0] for line in record.content.decode().splitlines()}

    there = {
        path.removeprefix(f"{folder}/")
        for path, node in tree.items()
        if path.startswith(folder) and isinstance(node, File)
    }
    assert listed == there
    source = REPOSITORY / "connector" / "src"
    modules = {str(file.relative_to(source)) for file in source.rglob("*.py")}
    assert {path for path in there if path.endswith(".py")} == modules
    assert {"tandem_connector/vllm/connector.py", "tandem_connector/probe.py"} <= modules


@needs_apt
def test_the_program_of_the_connector_image_copies_the_package(new_cache: Path, tmp_path: Path) -> None:
    build_image(CONNECTOR_INIT)
    tree = layers_of(new_cache)
    script = tree["copy-connector"]
    assert isinstance(script, File)
    assert isinstance(script.content, bytes)
    source, target = tmp_path / "source folder", tmp_path / "target folder"
    (source / "tandem_connector").mkdir(parents=True)
    (source / "tandem_connector" / "a.py").write_text("a = 1\n")
    program = script.content.decode().replace("/opt/tandem-connector", f"'{source}'")

    for _ in range(2):
        subprocess.run(["sh", "-c", program, "copy-connector", str(target)], check=True, capture_output=True)

    assert (target / "tandem_connector" / "a.py").read_text() == "a = 1\n"


@needs_apt
def test_an_engine_environment_can_be_part_of_an_image(new_cache: Path, tmp_path: Path) -> None:
    environment = tmp_path / "engine-1" / "site-packages"
    environment.mkdir(parents=True)
    (environment / "vllm.py").write_text("version = 1\n")
    image = replace(SMALL, venv=Venv(PurePosixPath("/opt/engine")))

    without = build_image(image, tmp_path / "without")
    built = build_image(image, tmp_path / "with", engine_environment=environment)

    assert built.digest != without.digest
    assert layers_of(new_cache)["opt/engine/lib/python3.11/site-packages/vllm.py"] == File(b"version = 1\n")


def test_pods_ask_for_these_names() -> None:
    assert {name: image.reference for name, image in IMAGES.items()} == {
        "operator": "tandem.dev/operator:0.1.0",
        "front-door": "tandem.dev/front-door:0.1.0",
        "connector-init": "tandem.dev/connector-init:0.1.0",
        "engine-cpu": "tandem.dev/engine-cpu:0.1.0",
        "nginx": "tandem.dev/nginx:0.1.0",
    }


def test_only_engines_run_as_root() -> None:
    assert [name for name, image in IMAGES.items() if image.user == 0] == ["engine-cpu"]


def test_a_change_in_a_distribution_is_a_change_of_its_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "member"
    folder.mkdir()
    monkeypatch.setattr("e2e.images.members.member_folders", lambda: {"member": folder})
    (folder / "a.py").write_text("a = 1\n")
    before = member_key("member")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.pyc").write_bytes(b"")

    assert member_key("member") == before
    (folder / "a.py").write_text("a = 2\n")
    assert member_key("member") != before
