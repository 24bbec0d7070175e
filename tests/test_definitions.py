# SPDX-License-Identifier: Apache-2.0
"""When definitions can be used and when they are gone, over an API server that does what a real one does now and then."""

from collections.abc import Mapping
from typing import Any

import pytest

from e2e.definitions import remove, wait_until_established, wait_until_gone
from e2e.kubectl import Kubectl, KubectlError

ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}]}
FAILED = {"conditions": [{"type": "Terminating", "status": "True", "reason": "InstanceDeletionFailed"}]}
IN_PROGRESS = {"conditions": [{"type": "Terminating", "status": "True", "reason": "InstanceDeletionInProgress"}]}


class FakeServer(Kubectl):
    """Definitions by their names, with their status; each of `then` is what has become of them at the next look."""

    def __init__(self, *then: Mapping[str, Any]) -> None:
        """Somebody else's definition is there, too."""
        self.then = [{"others": ESTABLISHED, **each} for each in then]
        self.asked: list[tuple[str, ...]] = []
        self.goes_when_annotated = True

    def list(self, kind: str, selector: str = "") -> list[Any]:
        assert kind == "crd"
        now = self.then.pop(0) if len(self.then) > 1 else self.then[0]
        return [{"metadata": {"name": name, "resourceVersion": "7"}, "status": each} for name, each in now.items()]

    def run(self, *arguments: str, stdin: str | None = None, timeout: float = 120.0) -> str:
        self.asked.append(arguments)
        if arguments[0] == "annotate":
            self.then = [{name: status for name, status in self.then[0].items() if name != arguments[2]}]
            if not self.goes_when_annotated:
                raise KubectlError("not found")
        return ""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("e2e.cluster.progress.time.sleep", lambda _: None)


def test_a_definition_that_has_no_conditions_yet_is_waited_for() -> None:
    server = FakeServer({}, {"a": None}, {"a": {}}, {"a": {"conditions": []}}, {"a": ESTABLISHED, "b": ESTABLISHED})

    wait_until_established(server, "a", "b")

    assert len(server.then) == 1


def test_a_definition_that_the_api_server_has_left_behind_is_changed_so_that_it_looks_again() -> None:
    server = FakeServer({"a": IN_PROGRESS, "b": IN_PROGRESS}, {"a": FAILED})

    remove(server, "a", "b")

    assert server.asked == [
        ("delete", "crd", "a", "b", "--ignore-not-found", "--wait=false"),
        ("annotate", "crd", "a", "tandem.dev/look-again=7", "--overwrite"),
    ]


def test_a_definition_that_goes_before_it_can_be_changed_is_gone() -> None:
    server = FakeServer({"a": FAILED})
    server.goes_when_annotated = False

    wait_until_gone(server, "a")


def test_a_definition_whose_resources_are_still_being_deleted_is_left_alone() -> None:
    server = FakeServer({"a": IN_PROGRESS}, {"a": IN_PROGRESS}, {})

    wait_until_gone(server, "a")

    assert server.asked == []
