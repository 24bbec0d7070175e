# SPDX-License-Identifier: Apache-2.0
"""Builds all that is expensive and kept in the cache, so that what comes after it starts fast."""

from e2e.cluster.binary import build_kubernetes
from e2e.engine.environment import build_environment
from e2e.engine.model import cached_model


def main() -> None:
    """Build what is missing, with progress."""
    build_kubernetes()
    build_environment()
    cached_model()


if __name__ == "__main__":
    main()
