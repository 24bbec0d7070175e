# SPDX-License-Identifier: Apache-2.0
"""Debian's Prometheus and promtool, unpacked into the cache; nothing is installed."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.cache import built_once, key_of
from e2e.images import debian

_PACKAGES: Final = ("libc6", "prometheus")
_LIBRARIES: Final = (Path("lib/x86_64-linux-gnu"), Path("usr/lib/x86_64-linux-gnu"))
"""Where Debian's C library is, up to version 12 and after."""
_LOADER: Final = "ld-linux-x86-64.so.2"


@dataclass(frozen=True)
class Programs:
    """Where they are."""

    root: Path
    """The packages' files."""

    @property
    def prometheus(self) -> list[str]:
        """The server's command, without arguments."""
        return self._command("prometheus")

    @property
    def promtool(self) -> list[str]:
        """As `prometheus`."""
        return self._command("promtool")

    def _command(self, name: str) -> list[str]:
        # With Debian's own C library, whatever this machine has.
        loader = next(each / _LOADER for each in _LIBRARIES if (self.root / each / _LOADER).exists())
        libraries = (self.root / loader).parent
        return [str(self.root / loader), "--library-path", str(libraries), str(self.root / "usr" / "bin" / name)]


def programs() -> Programs:
    """Both, fetched on the first call: 40 MB, ten seconds.

    The archive has one version at a time, so it isn't pinned: what is in the cache stays until nobody has used it for two weeks.

    Raises:
        BuildError: there are no Debian packages to be had here.
    """
    return Programs(built_once(f"prometheus-{key_of(*_PACKAGES)}", _unpack))


def _unpack(root: Path) -> None:
    for package in debian.fetched(_PACKAGES):
        if debian.package_name(package.name) in _PACKAGES:
            subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
