# SPDX-License-Identifier: Apache-2.0
"""The only place that writes: children, pods' metadata, status, Events."""

import asyncio
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog

from tandem_operator.api.resource import Metadata
from tandem_operator.api.scaler import ScalerStatus
from tandem_operator.api.status import Status
from tandem_operator.kube.client import Client, Json
from tandem_operator.kube.errors import Conflict, Gone, ImmutableField, Refused, Requeue
from tandem_operator.kube.events import event
from tandem_operator.kube.kinds import EVENT, POD, Kind, kind_of
from tandem_operator.kube.news import News
from tandem_operator.kube.ownership import check_ownership
from tandem_operator.kube.watches import Watches
from tandem_operator.metrics import Metrics
from tandem_operator.plan.children import key_of
from tandem_operator.plan.types import EventType, Eviction, Manifest, ObjectKey, PodPatch, Refusal

_log = structlog.get_logger()

_PARALLEL_PATCHES: Final = 8
_AT_ONCE: Final = timedelta(seconds=0.5)
_BOOKKEEPING: Final = frozenset({"resourceVersion", "managedFields", "generation"})


@dataclass(frozen=True)
class Applied:
    """The children after they were applied, as far as the server took them, and what it refused."""

    live: Mapping[ObjectKey, Manifest]
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True)
class Patched:
    """The patched pods as they are now, by name, and what the server refused."""

    live: Mapping[str, Manifest]
    refusals: tuple[Refusal, ...]


class Applier:
    """Makes the cluster match plans, one resource at a time.

    Args:
        client: the connection.
        metrics: gets what was written.
        watches: is told of writes, which must come back.
        news: is told of writes, which are no news then.
        reporter: names this process in Events.
    """

    def __init__(self, client: Client, metrics: Metrics, watches: Watches, news: News[Any], reporter: str) -> None:
        self._client = client
        self._metrics = metrics
        self._watches = watches
        self._news = news
        self._reporter = reporter
        self._last: dict[str, dict[ObjectKey, tuple[bytes, bytes]]] = {}
        """By the resource's uid, for each child: digests of what was applied last, and of what it was after that."""

    def forget(self, uid: str) -> None:
        """The resource is gone."""
        self._last.pop(uid, None)

    async def children(
        self,
        owner: Metadata,
        objects: Iterable[Manifest],
        live: Mapping[ObjectKey, Manifest],
        new: Iterable[Manifest] = (),
    ) -> Applied:
        """Server-side-apply the resource's children, in this order.

        A child is not sent when it was sent before and nobody changed it since: then the server would find nothing to do.

        Args:
            owner: the resource.
            objects: what is wanted, whole.
            live: the objects with the resource's label as they were read in this reconcile.
            new: some of the objects as they are made where there are none. What they have beyond `objects` is not applied, so
                that it is nobody's until others change it, and never put back.

        Raises:
            Requeue: an object of a former resource of the same name is in the way and is being removed, or somebody has made
                an object meanwhile.
        """
        before = self._last.get(owner.uid, {})
        after: dict[ObjectKey, tuple[bytes, bytes]] = {}
        results: dict[ObjectKey, Manifest] = {}
        refusals: list[Refusal] = []
        self._last[owner.uid] = after
        wanted_by_key = {key_of(wanted): wanted for wanted in objects}
        new_by_key = {key_of(wanted): wanted for wanted in new}
        unlabelled = await self._find(owner, [key for key in wanted_by_key if key not in live])
        for key, wanted in wanted_by_key.items():
            present = live.get(key) or unlabelled[key]
            digest = _digest(wanted)
            if present is not None and before.get(key) == (digest, _digest(_without_bookkeeping(present))):
                self._metrics.applies.labels(key.kind, "skipped").inc()
                after[key], results[key] = before[key], present
                continue
            try:
                if present is not None:
                    await check_ownership(self._client, owner, key, present)
                elif key in new_by_key:
                    present = await self._create(kind_of(key), new_by_key[key])
                result = await self._apply(kind_of(key), wanted, present)
            except Refused as error:
                refusals.append(_refusal(key, error))
                self._count_refusal(key.kind, error)
                continue
            results[key] = result
            after[key] = (digest, _digest(_without_bookkeeping(result)))
        return Applied(results, tuple(refusals))

    async def delete(self, owner: Metadata, obsolete: Iterable[ObjectKey], live: Mapping[ObjectKey, Manifest]) -> None:
        """Delete children that are no longer wanted: exactly those objects that were read, if the resource owns them."""
        for key in obsolete:
            present = live[key]
            await check_ownership(self._client, owner, key, present)
            await self._client.delete(kind_of(key), owner.namespace, key.name, present["metadata"]["uid"])
            self._metrics.deletes.labels(key.kind).inc()
            _log.info("obsolete object deleted", kind=key.kind, name=key.name)

    async def pods(self, owner: Metadata, patches: Iterable[PodPatch], live: Mapping[str, Manifest]) -> Patched:
        """Apply labels and annotations to pods that still are the ones that were read.

        A pod that was deleted, or replaced by another of its name, is left alone: the new one's own event leads to its own plan.
        """
        limit = asyncio.Semaphore(_PARALLEL_PATCHES)
        results: dict[str, Manifest] = {}
        refusals: list[Refusal] = []

        async def patch(each: PodPatch) -> None:
            manifest = {
                "apiVersion": POD.api_version,
                "kind": POD.kind,
                "metadata": {
                    "name": each.name,
                    "namespace": owner.namespace,
                    "uid": each.uid,
                    "labels": dict(each.labels),
                    "annotations": dict(each.annotations),
                },
            }
            async with limit:
                try:
                    results[each.name] = await self._apply(POD, manifest, live.get(each.name))
                except (Gone, Conflict):
                    self._metrics.applies.labels(POD.kind, "gone").inc()
                    _log.info("pod replaced meanwhile", engine=each.name)
                except Refused as error:
                    refusals.append(_refusal(ObjectKey(POD.api_version, POD.kind, each.name), error))
                    self._count_refusal(POD.kind, error)

        # All end before the first error is raised: no request of this reconcile may outlive it.
        outcomes = await asyncio.gather(*map(patch, patches), return_exceptions=True)
        for error in filter(None, outcomes):
            raise error
        return Patched(results, tuple(refusals))

    async def evict(self, owner: Metadata, pods: Iterable[Eviction]) -> None:
        """Evict exactly these pods. Those that a PodDisruptionBudget holds are left for the next reconcile."""
        for each in pods:
            evicted = await self._client.evict(owner.namespace, each.name, each.uid)
            if evicted:
                self._metrics.deletes.labels(POD.kind).inc()
            _log.info("engine evicted" if evicted else "eviction not allowed yet", engine=each.name)

    async def status(self, resource: Manifest, status: Status | ScalerStatus) -> Json | None:
        """Write the status if it is another than the one in `resource` (or scaler), as read; the object as it then is, if so.

        Raises:
            Gone, Conflict: the resource is no longer the one that was read.
        """
        return await self.raw_status(resource, status.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def raw_status(self, resource: Manifest, status: Mapping[str, Any]) -> Json | None:
        """As `status`, for a status that is JSON already."""
        if resource.get("status") == status:
            return None
        key = key_of(resource)
        metadata = {field: resource["metadata"][field] for field in ("name", "namespace", "uid")}
        manifest = {"apiVersion": key.api_version, "kind": key.kind, "metadata": metadata, "status": status}
        return await self._apply(kind_of(key), manifest, resource, subresource="status")

    async def events(self, resource: Manifest, occurred: Iterable[EventType]) -> None:
        """Report transitions as Events on the resource. An Event that can't be written is logged, and lost."""
        for each in occurred:
            at = datetime.now(UTC)
            manifest = event(resource, each, reporter=self._reporter, at=at)
            self._metrics.events.labels(each.reason).inc()
            _log.info("event", reason=each.reason, warning=each.warning, message=each.message)
            try:
                await self._client.create(EVENT, resource["metadata"]["namespace"], manifest)
            except (Conflict, Gone, Refused) as error:
                _log.warning("event not written", reason=each.reason, error=str(error))

    async def _find(self, owner: Metadata, keys: Sequence[ObjectKey]) -> dict[ObjectKey, Json | None]:
        """Objects that may be there without the resource's label, as somebody else's are."""
        found = await asyncio.gather(*(self._client.get(kind_of(key), owner.namespace, key.name) for key in keys))
        return dict(zip(keys, found, strict=True))

    async def _create(self, kind: Kind, manifest: Manifest) -> Json:
        try:
            result = await self._client.create(kind, manifest["metadata"]["namespace"], manifest)
        except Conflict as error:
            raise Requeue(str(error), _AT_ONCE) from error
        self._wrote(kind, result)
        self._metrics.applies.labels(kind.kind, "changed").inc()
        _log.info("applied", kind=kind.kind, name=manifest["metadata"]["name"], new=True)
        return result

    async def _apply(
        self, kind: Kind, manifest: Manifest, present: Manifest | None, *, subresource: str | None = None
    ) -> Json:
        result = await self._client.apply(kind, manifest, subresource=subresource)
        self._wrote(kind, result)
        # Not its version: that also changes when another writes the status between our reading and writing.
        compare = _without_bookkeeping if subresource is None else _status
        changed = present is None or compare(present) != compare(result)
        self._metrics.applies.labels(kind.kind, "changed" if changed else "unchanged").inc()
        if changed and subresource is None and kind is not POD:
            _log.info("applied", kind=kind.kind, name=manifest["metadata"]["name"], new=present is None)
        return result

    def _wrote(self, kind: Kind, result: Json) -> None:
        self._watches.wrote(kind.plural, result["metadata"])
        self._news.wrote(result["metadata"])

    def _count_refusal(self, kind: str, error: Refused) -> None:
        self._metrics.applies.labels(kind, "immutable" if isinstance(error, ImmutableField) else "refused").inc()


def _refusal(key: ObjectKey, error: Refused) -> Refusal:
    return Refusal(key, immutable=isinstance(error, ImmutableField), message=str(error))


def _status(live: Manifest) -> Manifest | None:
    status: Manifest | None = live.get("status")
    return status


def _without_bookkeeping(live: Manifest) -> Manifest:
    """The object without what changes although nobody edited it.

    `generation` alone would not do: it does not count changes of labels, annotations, or of kinds that have none.
    """
    metadata = {k: v for k, v in live["metadata"].items() if k not in _BOOKKEEPING}
    return {**{field: value for field, value in live.items() if field != "status"}, "metadata": metadata}


def _digest(manifest: Manifest) -> bytes:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).digest()[:16]
