# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import pytest

from tests.network.builders import Stage, keys


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Engines without keys."""
    stage = Stage()
    yield stage
    stage.close()


@pytest.fixture
def locked() -> Iterator[Stage]:
    """Engines of one resource, with its keys."""
    stage = Stage(keys())
    yield stage
    stage.close()
