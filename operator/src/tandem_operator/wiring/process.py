# SPDX-License-Identifier: Apache-2.0
"""The whole operator as one process: what runs, in which order it starts, and in which it stops."""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any

import structlog
from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from tandem_operator.kube.access import find_access, own_namespace
from tandem_operator.kube.apply import Applier
from tandem_operator.kube.children import Children
from tandem_operator.kube.client import Client
from tandem_operator.kube.errors import KubeError
from tandem_operator.kube.kinds import RESOURCE, SCALER
from tandem_operator.kube.lease import Elector, Terms
from tandem_operator.kube.news import News
from tandem_operator.kube.nodes import Nodes
from tandem_operator.kube.observe import Observer, ResourceKey
from tandem_operator.kube.queue import WorkQueue
from tandem_operator.kube.tenure import Tenure
from tandem_operator.kube.watches import Watches
from tandem_operator.metrics import Metrics
from tandem_operator.plan.outcome import outcome
from tandem_operator.plan.plan import plan
from tandem_operator.plan.types import Defaults
from tandem_operator.settings import Settings
from tandem_operator.wiring.conversing import Conversations
from tandem_operator.wiring.engine_client import EngineClient, engine_session
from tandem_operator.wiring.health import Health
from tandem_operator.wiring.http import serving
from tandem_operator.wiring.reconcile import Reconciler
from tandem_operator.wiring.triggers import Triggers
from tandem_operator.wiring.watching import expected_streams, watch

_log = structlog.get_logger()

_REPORTS_TOGETHER = 1.0
"""Seconds within which reports of one resource's engines are written together."""
_CRD_POLL = 5.0
"""Seconds between two looks for the CRDs."""


async def run(settings: Settings) -> None:
    """Run the operator until SIGTERM or SIGINT.

    Raises:
        NoAccess: there is no way to an API server.
        Exception: a part failed that can't be started again by itself. The process should end and be restarted.
    """
    metrics = Metrics(_process_metrics())
    access = await find_access(settings.kubeconfig)
    tenure = Tenure()
    async with (
        Client(access.configuration, metrics, tenure=tenure, timeout=settings.request_timeout) as client,
        engine_session() as session,
    ):
        watches = Watches(
            expected_streams(settings.namespaces),
            request_limit=settings.watch_timeout + settings.watch_grace,
            echo_limit=settings.watch_grace,
        )
        queue: WorkQueue[ResourceKey] = WorkQueue(metrics)
        nodes: Nodes[ResourceKey] = Nodes(client)
        news: News[ResourceKey] = News()
        triggers = Triggers(queue, news, nodes, watches, metrics)
        conversations = Conversations(
            EngineClient(session),
            metrics,
            at_once=settings.conversations,
            on_report=lambda key: queue.add_after(key, _REPORTS_TOGETHER),
        )
        reconciler = Reconciler(
            client,
            Observer(client, news, Children(client, news), nodes),
            Applier(client, metrics, watches, news, settings.identity),
            conversations,
            metrics,
            defaults=Defaults(
                front_door_image=settings.front_door_image,
                connector_image=settings.connector_image,
                namespace=own_namespace(),
            ),
            plan=plan,
            outcome=outcome,
            on_gone=triggers.forget,
            resync=settings.resync,
            timeout=settings.reconcile_timeout,
        )
        elector = Elector(
            client,
            settings.lease_namespace or own_namespace(),
            settings.lease_name,
            settings.identity,
            metrics,
            tenure=tenure,
            terms=Terms(settings.lease_duration, settings.lease_renew_deadline, settings.lease_retry),
        )

        async def lead() -> None:
            triggers.all()
            try:
                async with asyncio.TaskGroup() as workers:
                    for _ in range(settings.workers):
                        workers.create_task(queue.work(reconciler))
            finally:
                # Whoever leads now holds them, and tells of the resources.
                conversations.stop()
                metrics.of_resources.clear()

        health = Health(watches, queue, elector, longest_reconcile=2 * settings.reconcile_timeout)
        stop, stop_watching, watching = asyncio.Event(), asyncio.Event(), asyncio.Event()
        _stop_on_signals(stop)
        async with serving(
            settings.http_host, settings.http_port, alive=health.alive, ready=health.ready, registry=metrics.registry
        ):
            if not await _crds_are_there(client, stop):
                return
            leading = asyncio.create_task(elector.run(lead))
            fresh = asyncio.create_task(access.keep_fresh())
            watches_running = asyncio.create_task(
                watch(
                    access,
                    triggers,
                    watches,
                    namespaces=settings.namespaces,
                    watch_timeout=settings.watch_timeout,
                    ready=watching,
                    stop=stop_watching,
                )
            )
            parts = (watches_running, leading, fresh)
            try:
                await _first(watching.wait(), *parts)
                # Again, because kopf has set its own, which would stop the watches before the work.
                _stop_on_signals(stop)
                await _first(stop.wait(), *parts)
            finally:
                _log.info("stopping")
                # Nobody works any more when the Lease is released, and only then the watches may end.
                leading.cancel()
                await asyncio.wait({leading})
                fresh.cancel()
                stop_watching.set()
                await asyncio.wait(parts)
    # Usually there is one error; of several, one of the watches explains the others.
    for part in parts:
        if not part.cancelled():
            part.result()
    _log.info("stopped")


async def _first(awaited: Coroutine[None, None, object], *parts: asyncio.Task[Any]) -> None:
    """Return when `awaited` has come true or a part has ended, which none should."""
    waiter = asyncio.ensure_future(awaited)
    try:
        await asyncio.wait({waiter, *parts}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()


async def _crds_are_there(client: Client, stop: asyncio.Event) -> bool:
    """Wait for the CRDs, since kopf would never notice that they came; False when the process is to stop instead."""
    while not stop.is_set():
        try:
            missing = [kind for kind in (RESOURCE, SCALER) if not await client.is_served(kind)]
            if not missing:
                return True
            for kind in missing:
                _log.warning("crd not installed", crd=f"{kind.plural}.{kind.group}", again_seconds=_CRD_POLL)
        except KubeError as error:
            _log.warning("api server not reached", error=str(error), again_seconds=_CRD_POLL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CRD_POLL):
                await stop.wait()
    return False


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)


def _process_metrics() -> CollectorRegistry:
    # They double the number of series, and nothing that we ask of our counters needs them.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return registry
