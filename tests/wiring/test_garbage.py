# SPDX-License-Identifier: Apache-2.0
"""The collector of cycles doesn't look at what has none."""

import gc
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tandem_operator.wiring.garbage import collect_seldom
from tests.builders import a_ready_pod


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """The generations of all collections while the test runs; the collector is as before afterwards."""
    seen: list[int] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            seen.append(info["generation"])

    threshold = gc.get_threshold()
    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)
    gc.set_threshold(*threshold)
    gc.unfreeze()


def test_lists_of_pods_are_read_without_a_look_at_all_objects(collections: list[int]) -> None:
    pods = json.dumps([a_ready_pod(ordinal=number).build() for number in range(200)])
    collect_seldom()
    collections.clear()
    for _ in range(20):
        json.loads(pods)
    assert len(collections) <= 1
    assert gc.get_freeze_count() > 10_000
