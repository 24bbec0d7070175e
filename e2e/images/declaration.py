# SPDX-License-Identifier: Apache-2.0
"""What an image is made of: the one description that the archive and the Dockerfile are both made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

REPOSITORY = Path(__file__).parents[2]

PYTHON = "python3.11"
"""Debian 12's Python, by package and by program name."""


@dataclass(frozen=True)
class TextFile:
    """A file that the declaration itself holds."""

    path: PurePosixPath
    content: str
    executable: bool = False


@dataclass(frozen=True)
class Venv:
    """A virtual environment for Debian's Python, first on `PATH`; `root` is its folder in the image."""

    root: PurePosixPath

    @property
    def python(self) -> PurePosixPath:
        """Its interpreter, a link to Debian's."""
        return self.root / "bin" / "python3"

    @property
    def site_packages(self) -> PurePosixPath:
        """Where its packages are."""
        return self.root / "lib" / PYTHON / "site-packages"


@dataclass(frozen=True)
class Wheels:
    """Python packages in one folder of the image, each at the version and hash of a lock file."""

    folder: PurePosixPath
    project: Path = Path()
    """Folder of the uv project whose lock file counts, relative to the repository."""
    member: str = ""
    """The workspace member whose dependencies are installed; empty for the project itself."""
    dependencies: bool = True
    """False: `own` alone, for a Python that has the rest."""
    own: tuple[str, ...] = ()
    """Workspace members that are built and installed themselves."""
    compiled: bool = True
    """Whether byte code for Debian's Python is added. Images run with a read-only root, where none can be written."""


@dataclass(frozen=True)
class Image:
    """One container image."""

    name: str
    version: str
    summary: str
    packages: tuple[str, ...]
    """Debian packages; what they depend on comes along."""
    entrypoint: tuple[str, ...]
    venv: Venv | None = None
    wheels: Wheels | None = None
    files: tuple[TextFile, ...] = ()
    links: Mapping[PurePosixPath, str] = field(default_factory=dict)
    """Symbolic links beyond those of the packages, and their targets."""
    environment: Mapping[str, str] = field(default_factory=dict)
    user: int = 65532
    """User and group id of its processes, unless a pod says otherwise."""
    published_base: str = "debian:12-slim"
    """What its Dockerfile starts from. Another than Debian has to bring what `packages` and `links` give."""

    @property
    def reference(self) -> str:
        """The name by which pods ask for it."""
        return f"tandem.dev/{self.name}:{self.version}"

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables of its processes."""
        system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        path = f"{self.venv.root}/bin:{system}" if self.venv else system
        return {"PATH": path, **self.environment}

    @property
    def labels(self) -> dict[str, str]:
        """The standard annotations of the OCI image specification that apply."""
        return {
            "org.opencontainers.image.title": self.name,
            "org.opencontainers.image.description": self.summary,
            "org.opencontainers.image.version": self.version,
        }
