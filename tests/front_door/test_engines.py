# SPDX-License-Identifier: Apache-2.0
"""Which engine a session's turns go to, told from what the engines count, and what routers say of themselves."""

from collections import Counter
from typing import Any

import httpx
import pytest

from e2e.front_door import engines as under_test
from e2e.front_door.engines import Engines, Routers
from e2e.kubectl import Kubectl, KubectlError

DECODE = ("qwen-decode-0", "qwen-decode-1")


class FakePods(Kubectl):
    """Two decode engines that count answers, and two routers, in place of kubectl."""

    def __init__(self) -> None:
        """Nobody has answered."""
        self.counts: Counter[str] = Counter()
        self.in_use: dict[str, int | None] = {"router-a": 2, "router-b": 2}
        self.ending: set[str] = set()

    def list(self, kind: str, selector: str = "") -> list[Any]:
        names = self.in_use if "front-door" in selector else DECODE
        return [
            {"metadata": {"name": name, **({"deletionTimestamp": "now"} if name in self.ending else {})}}
            for name in names
        ]

    def pod_http(self, pod: str, port: int, path: str) -> str:
        if path == "/metrics":
            name = "vllm_router_retries" if pod.startswith("router") else "vllm:request_success"
            return f'# TYPE {name} counter\n{name}_total{{kind="a"}} {self.counts[pod]}\n'
        if (engines := self.in_use[pod]) is None:
            raise KubectlError("503")
        return f'{{"status": "ready", "healthy_workers": {engines}}}'


def lead(pods: FakePods, monkeypatch: pytest.MonkeyPatch, engines: tuple[str, ...]) -> None:
    """Sessions go to these engines by their numbers."""

    def ask(_: str, session: str) -> httpx.Response:
        pods.counts[engines[int(session.rpartition("-")[2]) % len(engines)]] += 1
        return httpx.Response(200, request=httpx.Request("POST", "http://front-door"))

    monkeypatch.setattr(under_test, "ask", ask)


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch) -> FakePods:
    """Sessions with an even number go to the first engine."""
    pods = FakePods()
    lead(pods, monkeypatch, DECODE)
    return pods


def test_a_session_is_served_by_the_engine_that_counts_its_turn(pods: FakePods) -> None:
    served = Engines(pods, "qwen").who_serve("", ["a-0", "a-1", "a-3"])
    assert served == {"a-0": DECODE[0], "a-1": DECODE[1], "a-3": DECODE[1]}


def test_as_many_sessions_as_are_wanted_are_found_of_each(pods: FakePods) -> None:
    found = Engines(pods, "qwen").sessions_of_each("", 2)
    assert Counter(found.values()) == dict.fromkeys(DECODE, 2)


def test_an_engine_that_gets_no_session_is_an_error(pods: FakePods, monkeypatch: pytest.MonkeyPatch) -> None:
    lead(pods, monkeypatch, DECODE[:1])
    with pytest.raises(AssertionError, match="fewer than 1"):
        Engines(pods, "qwen").sessions_of_each("", 1)


def test_routers_use_engines_when_each_of_them_says_so_but_those_that_end(pods: FakePods) -> None:
    routers = Routers(pods, "qwen")
    assert routers.use(2, replicas=2)
    pods.in_use["router-b"] = 1
    assert not routers.use(2, replicas=2)
    pods.in_use["router-b"] = None
    assert not routers.use(2, replicas=2)
    pods.ending = {"router-b"}
    assert routers.use(2, replicas=1)
    assert routers.names() == {"router-a"}


def test_retries_are_those_of_all_routers(pods: FakePods) -> None:
    pods.counts.update({"router-a": 2, "router-b": 3})
    assert Routers(pods, "qwen").retries() == 5
