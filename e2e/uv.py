# SPDX-License-Identifier: Apache-2.0
"""Which uv is run: the one that `make setup` pinned, else the user's."""

import shutil

from e2e.cache import BuildError, cache_root


def uv_program() -> str:
    """Path of the uv program.

    Raises:
        BuildError: There is none.
    """
    pinned = sorted(cache_root().glob("uv-[0-9]*/bin/uv"))
    found = str(pinned[-1]) if pinned else shutil.which("uv")
    if not found:
        raise BuildError("uv is not here: run `make setup`, which brings it")
    return found
