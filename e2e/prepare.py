# SPDX-License-Identifier: Apache-2.0
"""Builds all that the tests need and the cache keeps, so that a test's time is its own."""

import sys

from e2e.cache import BuildError
from e2e.cluster.binary import build_kubernetes, build_kwok
from e2e.engine.environment import build_environment
from e2e.engine.model import cached_model
from e2e.images.build import build_image
from e2e.images.catalogue import IMAGES
from e2e.prometheus.programs import programs


def main() -> None:
    """Build what is missing, with progress."""
    build_kubernetes()
    build_kwok()
    build_environment()
    cached_model()
    programs()
    for image in IMAGES.values():
        build_image(image)


if __name__ == "__main__":
    try:
        main()
    except BuildError as error:
        sys.exit(str(error))
