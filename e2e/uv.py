# SPDX-License-Identifier: Apache-2.0
"""Which uv is run: the one that `uv.lock` pins for the tools, wherever the cache is and whatever is on PATH."""

from uv import find_uv_bin

from e2e.cache import BuildError


def uv_program() -> str:
    """Path of the uv program.

    Raises:
        BuildError: There is none.
    """
    try:
        return str(find_uv_bin())
    except FileNotFoundError as error:
        raise BuildError("uv is not here: run `make setup`, which brings it") from error
