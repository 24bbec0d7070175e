# SPDX-License-Identifier: Apache-2.0
"""kopf itself against the fake API server."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, cast

import kopf
import pytest
from kubernetes.aio.client import Configuration

from tandem_operator.api.names import PLURAL, RESOURCE_LABEL
from tandem_operator.kube.access import Access
from tandem_operator.kube.client import Client
from tandem_operator.kube.news import News
from tandem_operator.kube.nodes import Nodes
from tandem_operator.kube.observe import ResourceKey
from tandem_operator.kube.permissions import RULES
from tandem_operator.kube.queue import WorkQueue
from tandem_operator.kube.watches import Watches
from tandem_operator.metrics import Metrics
from tandem_operator.wiring.triggers import Triggers
from tandem_operator.wiring.watching import _settings, expected_streams, watch
from tests.builders import a_node, a_ready_pod, a_resource
from tests.kube.fake_api import Answer, FakeApi
from tests.kube.serving import configuration_of

QWEN = ResourceKey("models", "qwen")


class Watching:
    """The watches of one process, and what they put into its queue."""

    def __init__(
        self,
        api: FakeApi,
        client: Client,
        metrics: Metrics,
        namespaces: tuple[str, ...] = (),
        configuration: Configuration | None = None,
    ) -> None:
        self.metrics = metrics
        self.worked: list[ResourceKey] = []
        self.watches = Watches(expected_streams(namespaces), request_limit=60, echo_limit=60)
        self.nodes: Nodes[ResourceKey] = Nodes(client)
        self.queue: WorkQueue[ResourceKey] = WorkQueue(metrics)
        self.triggers = Triggers(self.queue, News(), self.nodes, self.watches, metrics)
        self.has_ended = False
        self._configuration = configuration or configuration_of(api)
        self._namespaces = namespaces

    @asynccontextmanager
    async def running(self, watch_timeout: int = 60) -> AsyncIterator[None]:
        ready, stop = asyncio.Event(), asyncio.Event()

        async def note(key: ResourceKey) -> None:
            self.worked.append(key)

        async def forever() -> None:
            await asyncio.Event().wait()

        worker = asyncio.create_task(self.queue.work(note))
        watching = asyncio.create_task(
            watch(
                Access(self._configuration, forever),
                self.triggers,
                self.watches,
                namespaces=self._namespaces,
                watch_timeout=watch_timeout,
                ready=ready,
                stop=stop,
            )
        )
        watching.add_done_callback(lambda _: setattr(self, "has_ended", True))
        try:
            await ready.wait()
            await until(lambda: not self.watches.missing())
            yield
        finally:
            stop.set()
            worker.cancel()
            await asyncio.wait_for(watching, 10)

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 -- the condition is on plain data
            await asyncio.sleep(0.01)


@pytest.fixture
async def watching(api: FakeApi, client: Client, metrics: Metrics) -> Watching:
    return Watching(api, client, metrics)


def a_child(name: str = "qwen-decode-0") -> dict[str, Any]:
    manifest = a_ready_pod().build()
    manifest["metadata"] |= {"name": name, "uid": f"uid-of-{name}"}
    return manifest


async def test_what_is_there_and_what_changes_reaches_the_queue(api: FakeApi, watching: Watching) -> None:
    api.put(PLURAL, a_resource().manifest())
    async with watching.running():
        await until(lambda: watching.worked == [QWEN])
        api.put(PLURAL, a_resource().with_decode(3).manifest())
        await until(lambda: len(watching.worked) == 2)
        api.put("pods", a_child())
        await until(lambda: len(watching.worked) == 3)
        api.remove("pods", "qwen-decode-0")
        await until(lambda: len(watching.worked) == 4)
    assert set(watching.worked) == {QWEN}


async def test_the_watches_go_through_the_proxy_too(api: FakeApi, client: Client, metrics: Metrics) -> None:
    behind = Configuration(host="http://nowhere.invalid", proxy=api.address)
    watching = Watching(api, client, metrics, configuration=behind)
    api.put(PLURAL, a_resource().manifest())
    async with watching.running():
        await until(lambda: watching.worked == [QWEN])


async def test_kopf_makes_no_copies_of_what_it_is_told(
    api: FakeApi, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*_: object, **__: object) -> None:
        pytest.fail("an object was copied, to be compared with what nobody stored")

    monkeypatch.setattr(kopf.DiffBaseStorage, "build", build)
    async with watching.running():
        api.put("pods", a_child())
        await until(lambda: watching.worked == [QWEN])


async def test_pods_of_others_are_not_even_sent(api: FakeApi, watching: Watching) -> None:
    stranger = a_child("stranger")
    del stranger["metadata"]["labels"][RESOURCE_LABEL]
    async with watching.running():
        api.put("pods", stranger)
        api.put("pods", a_child())
        await until(lambda: watching.worked == [QWEN])
        assert watching.count("tandem_watch_events_total", resource="pods") == 1


async def test_kopf_writes_nothing_and_needs_only_rights_that_the_table_has(api: FakeApi, watching: Watching) -> None:
    api.put(PLURAL, a_resource().manifest())
    api.put("nodes", a_node().build())
    async with watching.running():
        await until(lambda: watching.worked == [QWEN])
        api.remove(PLURAL, "qwen")
        await until(lambda: len(watching.worked) == 2)
    assert api.writes == []
    allowed = {(verb, rule.group, rule.resource) for rule in RULES for verb in rule.verbs}
    assert {tuple(asked) for asked in api.asked} - allowed == set()


async def test_a_resource_deleted_while_its_watch_was_away_is_looked_at(api: FakeApi, watching: Watching) -> None:
    """The ghost: after 410 Gone kopf lists anew and tells nobody that an object it knew is missing."""
    api.put(PLURAL, a_resource().manifest())
    api.put(PLURAL, a_resource().named("constant").manifest() | {"metadata": _metadata("constant")})
    async with watching.running():
        await until(lambda: len(watching.worked) == 2)
        await api.interrupt_watch(PLURAL, lambda: api.remove(PLURAL, "qwen"))
        await until(lambda: watching.count("tandem_watch_relists_total", resource=PLURAL) == 1)
        # Within some seconds, at random; here at once.
        watching.worked.clear()
        for key in list(watching.queue._timers):
            watching.queue.add(key)
        await until(lambda: QWEN in watching.worked)


async def test_the_only_resource_of_all_deleted_while_its_watch_was_away_is_looked_at(
    api: FakeApi, watching: Watching
) -> None:
    """The new list is empty, of which kopf tells nothing at all."""
    api.put(PLURAL, a_resource().manifest())
    async with watching.running():
        await until(lambda: watching.worked == [QWEN])
        await api.interrupt_watch(PLURAL, lambda: api.remove(PLURAL, "qwen"))
        await until(lambda: watching.count("tandem_watch_relists_total", resource=PLURAL) == 1)
        assert QWEN in watching.queue._timers


async def test_a_watch_that_is_refused_for_long_goes_on_soon_after_it_is_served_again(
    api: FakeApi, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem_operator.wiring.watching._PAUSES", ())
    monkeypatch.setattr("tandem_operator.wiring.watching._LONGEST_PAUSE", 0.01)
    refused: Answer = (503, {}, "{}")
    async with watching.running():
        api.answer("GET", "/pods", *[refused] * 40)
        await api.interrupt_watch("pods")
        stored = api.put("pods", a_child())
        await until(lambda: watching.worked == [QWEN])
        assert not watching.has_ended
        assert stored["metadata"]["name"] == "qwen-decode-0"


def test_pauses_between_attempts_never_end_and_grow_no_longer_than_some_seconds() -> None:
    pauses = list(islice(cast("Iterable[float]", _settings(60).networking.error_backoffs), 100))
    assert len(pauses) == 100
    assert pauses == sorted(pauses)
    assert max(pauses) == 5.0


def _metadata(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": "models", "uid": f"uid-of-{name}", "generation": 1}


async def test_a_quiet_watch_is_asked_for_again_after_its_time_limit(api: FakeApi, watching: Watching) -> None:
    async with watching.running(watch_timeout=1):
        first = dict(watching.watches._asked)
        await until(lambda: all(watching.watches._asked[stream] > at for stream, at in first.items()))
        assert watching.watches.dead() == []


async def test_a_half_open_watch_is_noticed_by_the_write_that_does_not_come_back(
    api: FakeApi, watching: Watching
) -> None:
    stored = api.put("pods", a_child())
    async with watching.running():
        await until(lambda: watching.worked == [QWEN])
        api.be_silent()
        changed = api.put("pods", {**stored, "metadata": {**stored["metadata"], "annotations": {"a": "b"}}})
        watching.watches.wrote("pods", changed["metadata"])
        watching.watches._echo_limit = 0
        assert watching.watches.dead()[0].startswith("the watch of pods did not tell of a write")


async def test_only_the_given_namespaces_are_watched(api: FakeApi, client: Client, metrics: Metrics) -> None:
    watching = Watching(api, client, metrics, ("models", "more"))
    for namespace in ("models", "more", "other"):
        manifest = a_resource().in_namespace(namespace).manifest()
        api.put(PLURAL, manifest | {"metadata": manifest["metadata"] | {"uid": f"uid-in-{namespace}"}})
    async with watching.running():
        await until(lambda: len(watching.worked) == 2)
    assert {key.namespace for key in watching.worked} == {"models", "more"}
    assert not any(path.endswith(f"v1alpha1/{PLURAL}") for path in api.reads), "no right to the whole cluster is needed"


async def test_a_watch_that_fails_for_good_ends_all_of_them_so_that_the_process_is_restarted(
    api: FakeApi, watching: Watching
) -> None:
    async def go_on_after_an_error() -> None:
        async with watching.running():
            await api.interrupt_watch("pods", code=500)
            await until(lambda: watching.has_ended)

    with pytest.raises(Exception, match="Error in the watch-stream"):
        await go_on_after_an_error()
