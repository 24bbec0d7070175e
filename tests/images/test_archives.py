# SPDX-License-Identifier: Apache-2.0
"""Archives follow the OCI image layout, and say of themselves what is true."""

import hashlib
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.images.archive import archive_digest, image_digest, layer_blob, write_archive
from e2e.images.declaration import Image
from e2e.images.tree import File, write_layer

AN_IMAGE = Image(
    name="thing",
    version="1.2.3",
    summary="A thing",
    packages=(),
    entrypoint=("/thing", "run"),
    environment={"MODE": "fast"},
    user=1234,
)


@pytest.fixture
def members(tmp_path: Path) -> Mapping[str, bytes]:
    """The files of an archive of `AN_IMAGE` with two layers."""
    layers = []
    for name in ("base", "top"):
        write_layer({f"etc/{name}": File(name.encode())}, tmp_path / name)
        layers.append(layer_blob(tmp_path / name))
    write_archive(AN_IMAGE, layers, tmp_path / "thing.tar")
    assert archive_digest(tmp_path / "thing.tar") == image_digest(AN_IMAGE, layers)
    with tarfile.open(tmp_path / "thing.tar") as archive:
        return {name: archive.extractfile(name).read() for name in archive.getnames()}  # type: ignore[union-attr]


def blob(members: Mapping[str, bytes], descriptor: Mapping[str, Any]) -> bytes:
    content = members["blobs/" + descriptor["digest"].replace(":", "/")]
    assert len(content) == descriptor["size"]
    assert f"sha256:{hashlib.sha256(content).hexdigest()}" == descriptor["digest"]
    return content


def manifest_of(members: Mapping[str, bytes]) -> dict[str, Any]:
    (descriptor,) = json.loads(members["index.json"])["manifests"]
    manifest: dict[str, Any] = json.loads(blob(members, descriptor))
    return manifest


def test_the_layout_is_marked_as_one(members: Mapping[str, bytes]) -> None:
    assert json.loads(members["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}


def test_container_runtimes_find_the_name_that_pods_ask_for(members: Mapping[str, bytes]) -> None:
    (descriptor,) = json.loads(members["index.json"])["manifests"]

    assert descriptor["annotations"]["io.containerd.image.name"] == "tandem.dev/thing:1.2.3"
    assert json.loads(members["manifest.json"])[0]["RepoTags"] == ["tandem.dev/thing:1.2.3"]


def test_every_blob_is_what_its_descriptor_says_and_none_is_left_over(members: Mapping[str, bytes]) -> None:
    manifest = manifest_of(members)
    for descriptor in (manifest["config"], *manifest["layers"]):
        blob(members, descriptor)

    assert len([name for name in members if name.startswith("blobs/")]) == 4


def test_the_configuration_names_the_layers_in_their_order(members: Mapping[str, bytes]) -> None:
    manifest = manifest_of(members)
    configuration = json.loads(blob(members, manifest["config"]))

    assert configuration["rootfs"]["diff_ids"] == [layer["digest"] for layer in manifest["layers"]]
    assert len(configuration["history"]) == 2
    (for_docker,) = json.loads(members["manifest.json"])
    assert for_docker["Layers"] == [f"blobs/{layer['digest'].replace(':', '/')}" for layer in manifest["layers"]]


def test_processes_get_what_was_declared(members: Mapping[str, bytes]) -> None:
    configuration = json.loads(blob(members, manifest_of(members)["config"]))["config"]

    assert configuration["User"] == "1234:1234"
    assert configuration["Entrypoint"] == ["/thing", "run"]
    assert "MODE=fast" in configuration["Env"]
    assert configuration["Labels"]["org.opencontainers.image.version"] == "1.2.3"
