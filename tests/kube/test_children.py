# SPDX-License-Identifier: Apache-2.0
"""When children are read, and when what was read before is good enough."""

from collections.abc import Callable
from typing import Any

import pytest

from tandem_operator.api.names import RESOURCE_LABEL
from tandem_operator.kube.children import KNOWN_FOR, Children
from tandem_operator.kube.client import Client
from tandem_operator.kube.kinds import CHILD_KINDS
from tandem_operator.kube.news import News
from tandem_operator.plan.types import ObjectKey
from tests.kube.fake_api import FakeApi, Json

SERVICE = ObjectKey("v1", "Service", "qwen")
SET = ObjectKey("apps/v1", "StatefulSet", "qwen-decode")


class Bench:
    """Children at a time of the test's choice."""

    def __init__(self, api: FakeApi, client: Client) -> None:
        self.api = api
        self.news: News[str] = News()
        self.time = 0.0
        self.children = Children(client, self.news, clock=lambda: self.time)

    async def look(self) -> dict[ObjectKey, Any]:
        return dict(await self.children.look("qwen", "models", f"{RESOURCE_LABEL}=qwen"))

    async def read_anew(self) -> set[str]:
        """The kinds that the next look asks the API server for."""
        before = len(self.api.reads)
        await self.look()
        return {path.rpartition("/")[2] for path in self.api.reads[before:]}

    def put(self, key: ObjectKey, **content: Any) -> Json:
        labels = {RESOURCE_LABEL: "qwen"}
        metadata = {"name": key.name, "namespace": "models", "labels": labels}
        plural = {"Service": "services", "StatefulSet": "statefulsets"}[key.kind]
        return self.api.put(plural, {"apiVersion": key.api_version, "kind": key.kind, "metadata": metadata, **content})


@pytest.fixture
async def bench(api: FakeApi, client: Client) -> Bench:
    return Bench(api, client)


ALL = {kind.plural for kind in CHILD_KINDS}


async def test_what_nobody_changed_is_read_once(bench: Bench) -> None:
    bench.put(SET)
    assert await bench.read_anew() == ALL
    assert await bench.read_anew() == set()
    assert set(await bench.look()) == {SET}


async def test_a_kind_of_which_a_watch_told_news_is_read_again(bench: Bench) -> None:
    bench.put(SET)
    await bench.look()
    changed = bench.put(SET, status={"readyReplicas": 1})
    bench.news.heard("qwen", "statefulsets", "MODIFIED", changed["metadata"])
    assert await bench.read_anew() == {"statefulsets"}
    assert (await bench.look())[SET]["status"] == {"readyReplicas": 1}


async def test_a_change_that_happens_while_the_kind_is_read_is_not_missed(bench: Bench) -> None:
    later = bench.put(SET)["metadata"]
    later = {**later, "resourceVersion": str(int(later["resourceVersion"]) + 1)}
    bench.api.before("GET", "/statefulsets", lambda: bench.news.heard("qwen", "statefulsets", "MODIFIED", later))
    await bench.look()
    assert await bench.read_anew() == {"statefulsets"}


async def test_what_nobody_reports_is_read_again_after_some_time(bench: Bench) -> None:
    await bench.look()
    bench.time = KNOWN_FOR
    assert await bench.read_anew() == ALL


@pytest.mark.parametrize("why", [lambda bench: bench.news.start_over(), lambda bench: bench.children.forget("qwen")])
async def test_all_is_read_again_when_deletions_may_have_been_missed_or_writes_failed(
    bench: Bench, why: Callable[[Bench], None]
) -> None:
    await bench.look()
    why(bench)
    assert await bench.read_anew() == ALL


async def test_what_we_wrote_and_deleted_is_remembered(bench: Bench) -> None:
    bench.put(SET)
    await bench.look()
    written = bench.put(SERVICE)
    bench.children.changed("qwen", {SERVICE: written}, [SET])
    assert await bench.look() == {SERVICE: written}
