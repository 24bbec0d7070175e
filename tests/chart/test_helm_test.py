# SPDX-License-Identifier: Apache-2.0
"""What `helm test` runs, against an operator's own endpoints."""

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from tandem_operator.metrics import Metrics
from tandem_operator.wiring.http import serving
from tests.chart.rendering import Manifest, one, render


@dataclass
class Operator:
    """An operator's HTTP endpoints."""

    url: str = ""
    wrong: list[str] = field(default_factory=list)
    """Why it is not ready."""


@pytest.fixture
async def operator() -> AsyncIterator[Operator]:
    operator = Operator()
    registry = CollectorRegistry()
    Metrics(registry)
    async with serving("127.0.0.1", 0, alive=list, ready=lambda: operator.wrong, registry=registry) as port:
        operator.url = f"http://127.0.0.1:{port}"
        yield operator


def container() -> Manifest:
    found: Manifest = one(render(), "Pod", "tandem-test")["spec"]["containers"][0]
    return found


async def asked(url: str) -> tuple[int, str]:
    """The pod's program, asking once: its exit status and what it says."""
    program, *_ = container()["args"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, url, "1", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


async def test_it_passes_when_the_operator_is_ready(operator: Operator) -> None:
    assert await asked(operator.url) == (0, "the operator is ready\n")


async def test_it_fails_and_says_why_when_the_operator_is_not_ready(operator: Operator) -> None:
    operator.wrong = ["not watching pods yet"]

    assert await asked(operator.url) == (1, f"{operator.url}/readyz answers 503: not watching pods yet\n")


async def test_it_fails_when_nobody_answers(unused_tcp_port: int) -> None:
    status, said = await asked(f"http://127.0.0.1:{unused_tcp_port}")

    assert (status, "does not answer" in said) == (1, True)


def test_it_asks_the_service_of_the_operator_at_its_port() -> None:
    objects = render(release="blue")
    [port] = one(objects, "Service", "blue-tandem-metrics")["spec"]["ports"]

    _, url, tries = one(objects, "Pod", "blue-tandem-test")["spec"]["containers"][0]["args"]

    assert url == f"http://blue-tandem-metrics.tandem-system:{port['port']}"
    assert int(tries) > 1


def test_the_operators_network_policy_lets_it_in() -> None:
    only_prometheus = {
        "networkPolicy": {"enabled": True, "metricsFrom": [{"podSelector": {"matchLabels": {"a": "b"}}}]}
    }
    objects = render(only_prometheus)

    [rule] = one(objects, "NetworkPolicy")["spec"]["ingress"]
    let_in = [peer["podSelector"]["matchLabels"] for peer in rule["from"]]

    labels = one(objects, "Pod", "tandem-test")["metadata"]["labels"]
    assert [each.items() <= labels.items() for each in let_in] == [False, True]


def test_nothing_takes_its_pod_for_one_of_the_operators() -> None:
    objects = render()
    labels = one(objects, "Pod", "tandem-test")["metadata"]["labels"]

    assert not one(objects, "Service", "tandem-metrics")["spec"]["selector"].items() <= labels.items()
    assert not one(objects, "Deployment")["spec"]["selector"]["matchLabels"].items() <= labels.items()
