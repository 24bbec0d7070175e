# SPDX-License-Identifier: Apache-2.0
"""The image of the process that holds a pod's namespaces: one static program that sleeps.

Format: https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md
"""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Any

REFERENCE = "tandem.dev/pause:1"

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
_CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
_LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"


def write(archive: Path, program: Path, reference: str = REFERENCE) -> None:
    """Write an OCI archive called `reference`, whose only file is `program`, a static busybox."""
    layer = _tar({"busybox": program.read_bytes()}, mode=0o755)
    config = _json(
        {
            "architecture": _ARCHITECTURES[platform.machine()],
            "os": "linux",
            "config": {"Entrypoint": ["/busybox", "sleep", "infinity"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST_TYPE,
            "config": _descriptor(config, _CONFIG_TYPE),
            "layers": [_descriptor(layer, _LAYER_TYPE)],
        }
    )
    # containerd takes the image's name from this annotation.
    named = _descriptor(manifest, _MANIFEST_TYPE) | {"annotations": {"io.containerd.image.name": reference}}
    index = _json({"schemaVersion": 2, "manifests": [named]})
    blobs = {f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}": blob for blob in (layer, config, manifest)}
    files = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": index, **blobs}
    archive.write_bytes(_tar(files, mode=0o644))


def _tar(files: dict[str, bytes], mode: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = mode
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _descriptor(blob: bytes, media_type: str) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}
