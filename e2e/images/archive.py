# SPDX-License-Identifier: Apache-2.0
"""An OCI image archive: an image layout in a tar file, as containerd, kind, skopeo and `docker load` read it.

Format: https://github.com/opencontainers/image-spec/blob/main/image-layout.md. `manifest.json` beside it is the older
description that Docker engines before version 25 look for.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from e2e.images.declaration import Image
from e2e.images.tree import SOURCE_DATE_EPOCH

_CREATED = datetime.fromtimestamp(SOURCE_DATE_EPOCH, UTC).isoformat().replace("+00:00", "Z")
_KIND = "application/vnd.oci.image"


@dataclass(frozen=True)
class Blob:
    """Content that is named by its hash."""

    media_type: str
    digest: str
    size: int
    content: bytes | Path

    @property
    def descriptor(self) -> dict[str, object]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}

    @property
    def path(self) -> str:
        return "blobs/" + self.digest.replace(":", "/")


def layer_blob(path: Path) -> Blob:
    """A layer, which is an uncompressed tar file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Blob(f"{_KIND}.layer.v1.tar", f"sha256:{digest}", path.stat().st_size, path)


def write_archive(image: Image, layers: Sequence[Blob], target: Path) -> None:
    """Write the archive of `image` to the file `target`; `layers` are stacked in their order."""
    configuration = _json_blob(f"{_KIND}.config.v1+json", _configuration(image, layers))
    manifest = _manifest(configuration, layers)
    index = {
        "schemaVersion": 2,
        "mediaType": f"{_KIND}.index.v1+json",
        "manifests": [
            {
                **manifest.descriptor,
                "platform": {"architecture": "amd64", "os": "linux"},
                "annotations": {
                    "io.containerd.image.name": image.reference,
                    "org.opencontainers.image.ref.name": image.version,
                },
            }
        ],
    }
    for_docker = [
        {"Config": configuration.path, "RepoTags": [image.reference], "Layers": [layer.path for layer in layers]}
    ]
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", _json(index))
        _add(archive, "manifest.json", _json(for_docker))
        for blob in {blob.digest: blob for blob in (configuration, manifest, *layers)}.values():
            _add(archive, blob.path, blob.content)


def archive_digest(archive: Path) -> str:
    """The digest of the image in an archive, by which registries and container runtimes name it too."""
    with tarfile.open(archive) as file:
        index = file.extractfile("index.json")
        assert index is not None, "an archive of ours has a regular index.json"
        return str(json.load(index)["manifests"][0]["digest"])


def image_digest(image: Image, layers: Sequence[Blob]) -> str:
    """The digest that an archive of these layers has, without writing it."""
    return _manifest(_json_blob(f"{_KIND}.config.v1+json", _configuration(image, layers)), layers).digest


def _manifest(configuration: Blob, layers: Sequence[Blob]) -> Blob:
    media_type = f"{_KIND}.manifest.v1+json"
    content = {
        "schemaVersion": 2,
        "mediaType": media_type,
        "config": configuration.descriptor,
        "layers": [layer.descriptor for layer in layers],
    }
    return _json_blob(media_type, content)


def _configuration(image: Image, layers: Sequence[Blob]) -> dict[str, object]:
    return {
        "created": _CREATED,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": f"{image.user}:{image.user}",
            "Env": [f"{name}={value}" for name, value in image.variables.items()],
            "Entrypoint": list(image.entrypoint),
            "WorkingDir": "/",
            "Labels": image.labels,
        },
        # Of an uncompressed layer both digests are the same.
        "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]},
        "history": [{"created": _CREATED, "created_by": "python -m e2e.images build"} for _ in layers],
    }


def _json(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _json_blob(media_type: str, content: object) -> Blob:
    data = _json(content)
    return Blob(media_type, f"sha256:{hashlib.sha256(data).hexdigest()}", len(data), data)


def _add(archive: tarfile.TarFile, path: str, content: bytes | Path) -> None:
    entry = tarfile.TarInfo(path)
    entry.mtime = SOURCE_DATE_EPOCH
    if isinstance(content, bytes):
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    else:
        entry.size = content.stat().st_size
        with content.open("rb") as data:
            archive.addfile(entry, data)
