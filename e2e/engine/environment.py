# SPDX-License-Identifier: Apache-2.0
"""The Python environment of a CPU engine: 6 GB of wheels, installed once per lock file.

It is a virtual environment in the cache. A process on this machine starts its `python3`; a pod mounts its
`site-packages` read-only into an image whose Debian Python is of the same minor version.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from e2e.cache import BuildError, built_once, cache_root, key_of
from e2e.uv import uv_program

PYTHON_VERSION = "3.11"
_PROJECT = Path(__file__).parent
_RECIPE = "2"
"""Changed when the same lock file shall give another environment."""
# vLLM's wheel has its kernels once per set of CPU instructions, and only warns where the right ones can't be loaded.
_CHECK = """
import torch, torchvision, nixl._api
from vllm.platforms import current_platform
current_platform.import_kernels()
torch.ops._C.silu_and_mul
import vllm.entrypoints.openai.api_server
"""


@dataclass(frozen=True)
class EngineEnvironment:
    """An engine environment at `root`, complete or still to be built."""

    root: Path

    @property
    def python(self) -> Path:
        """The interpreter that finds the environment's packages."""
        return self.root / "bin" / "python3"

    @property
    def site_packages(self) -> Path:
        """The folder that a pod mounts; compiled, so that a read-only mount starts as fast."""
        return self.root / "lib" / f"python{PYTHON_VERSION}" / "site-packages"

    @property
    def complete(self) -> bool:
        """Whether it is there; it is never there in part."""
        return self.root.exists()


def engine_environment() -> EngineEnvironment:
    """Where the environment of this checkout's lock file is, or will be."""
    return EngineEnvironment(cache_root() / _name())


def build_environment() -> EngineEnvironment:
    """Install the locked wheels, with byte code, and import the engine once as a check; nothing when that was done.

    uv's own progress goes to standard error.

    Raises:
        BuildError: a step failed; uv's or Python's own message has gone to standard error.
    """
    return EngineEnvironment(built_once(_name(), _install))


def _name() -> str:
    own = [file for pattern in ("pyproject.toml", "*.py") for file in sorted((_PROJECT / "unlocked").glob(pattern))]
    return f"engine-{key_of(_PROJECT / 'pyproject.toml', _PROJECT / 'uv.lock', *own, PYTHON_VERSION, _RECIPE)}"


def _install(root: Path) -> None:
    _say("installing the CPU engine environment: 3 GB to download, 6 GB on disk, once per lock file")
    # Debian's interpreter where there is one: the pods run it too.
    debian = Path(f"/usr/bin/python{PYTHON_VERSION}")
    python = str(debian) if debian.exists() else PYTHON_VERSION
    uv = uv_program()
    _step(uv, "venv", "--quiet", "--relocatable", "--python", python, root)
    _step(
        *(uv, "sync", "--frozen", "--compile-bytecode", "--project", _PROJECT),
        # Byte code that does not depend on file times stays good in an image, where they are changed.
        environment={"UV_PROJECT_ENVIRONMENT": str(root), "PYC_INVALIDATION_MODE": "UNCHECKED_HASH"},
    )
    _say("importing the engine once, as a check")
    _step(EngineEnvironment(root).python, "-c", _CHECK)


def _step(*command: str | Path, environment: dict[str, str] | None = None) -> None:
    inherited = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    status = subprocess.run(command, env=inherited | (environment or {}), check=False).returncode
    if status:
        shown = " ".join(str(part) for part in command)
        raise BuildError(f"the CPU engine environment could not be built: exit status {status} of: {shown}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
