# SPDX-License-Identifier: Apache-2.0
"""Requests to the API server, as plain JSON, with retries and with errors that say what to do next.

The official `kubernetes` package does connections and credentials. Its models are not used: the operator passes objects
through and reads single fields, which models of another Kubernetes version would reject or drop.
"""

import asyncio
import json
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple, Self

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration

from tandem_operator.api.names import FIELD_MANAGER
from tandem_operator.kube.answers import permanent, retry_after, status_object
from tandem_operator.kube.errors import Conflict, Gone, Requeue
from tandem_operator.kube.kinds import LEASE, POD, Kind
from tandem_operator.kube.tenure import Tenure
from tandem_operator.metrics import Metrics
from tandem_operator.plan.types import Manifest

Json = dict[str, Any]

_TRANSIENT: Final = frozenset({408, 429, 500, 502, 503, 504})
_BACKOFF: Final = (0.2, 0.8, 3.0)
"""Seconds before the second, third and fourth attempt."""
_LONGEST_WAIT: Final = 10.0
"""A worker does not wait longer than that for one request; the resource goes back to the queue instead."""
_PAGE: Final = 500
APPLY_PATCH: Final = "application/apply-patch+yaml; charset=utf-8"
"""With its parameter the client library sends the text as it is; without, it makes JSON of it once more."""
MERGE_PATCH: Final = "application/merge-patch+json"
_NOT_IN_YAML: Final = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")


class Listed(NamedTuple):
    """Objects of a kind."""

    items: list[Json]
    version: str
    """In which they were like that."""


class Client:
    """One connection pool to one API server.

    Args:
        configuration: address and credentials.
        metrics: counts what went wrong.
        tenure: whether it may write anything but Leases; None: always.
        timeout: seconds that one attempt may take.
        sleep: waits between attempts.
    """

    def __init__(
        self,
        configuration: Configuration,
        metrics: Metrics,
        *,
        tenure: Tenure | None = None,
        timeout: float = 30.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = ApiClient(configuration)
        self._api.user_agent = f"{FIELD_MANAGER}-operator"
        self._metrics = metrics
        self._tenure = tenure
        self._timeout = timeout
        self._sleep = sleep

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._api.close()  # type: ignore[no-untyped-call]

    async def get(self, kind: Kind, namespace: str | None, name: str, *, patient: bool = True) -> Json | None:
        """The object as it is now; None when there is none."""
        try:
            return await self._request("GET", kind, kind.path(namespace, name), patient=patient)
        except Gone:
            return None

    async def list(self, kind: Kind, namespace: str | None, selector: str) -> Listed:
        """All objects with these labels, as they are now, each with its `apiVersion` and `kind`."""
        items: list[Json] = []
        query = {"labelSelector": selector, "limit": str(_PAGE)}
        while True:
            page = await self._request("GET", kind, kind.path(namespace), query=query)
            # The items of a list do not say what they are.
            items += [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in page["items"]]
            if not (token := page["metadata"].get("continue")):
                # All pages are of the version of the first.
                return Listed(items, page["metadata"]["resourceVersion"])
            query = {**query, "continue": token}

    async def is_served(self, kind: Kind) -> bool:
        """Whether the API server knows the kind, that is, whether its CRD is installed."""
        prefix = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.api_version}"
        try:
            served = await self._request("GET", kind, prefix)
        except Gone:
            return False
        return any(resource["name"] == kind.plural for resource in served["resources"])

    async def get_of_pod(self, namespace: str, pod: str, port: int, path: str) -> str:
        """What a pod answers over HTTP, fetched by the API server in one attempt; it needs the right to get `pods/proxy`.

        Raises:
            KubeError: the pod or the API server gave no such answer; the text has why.
        """
        proxied = POD.path(namespace, f"{pod}:{port}", f"proxy{path}")
        return await self._fetch("GET", POD, proxied, patient=False, accept="text/plain")

    async def apply(self, kind: Kind, manifest: Manifest, *, subresource: str | None = None) -> Json:
        """Server-side apply; the object as it is afterwards.

        With `metadata.uid` in the manifest, only that very object is changed and none is made.

        Raises:
            Conflict: the object has another uid, or none exists with it.
            Refused, ImmutableField: the server does not accept it.
        """
        metadata = manifest["metadata"]
        path = kind.path(metadata.get("namespace"), metadata["name"], subresource)
        # A controller is the authority over what it applies: https://kubernetes.io/docs/reference/using-api/server-side-apply/#using-server-side-apply-in-a-controller
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return await self._request("PATCH", kind, path, query=query, body=as_yaml(manifest), content_type=APPLY_PATCH)

    async def annotate(
        self, kind: Kind, namespace: str, name: str, uid: str, annotations: Mapping[str, str], *, manager: str
    ) -> Json:
        """Set these annotations of this very object, and nothing else; the object as it is afterwards.

        Raises:
            Gone, Conflict: there is none of that name, or another one.
            Refused: there is no right to it.
        """
        patch = {"metadata": {"uid": uid, "annotations": annotations}}
        query = {"fieldManager": manager}
        return await self._request(
            "PATCH", kind, kind.path(namespace, name), query=query, body=patch, content_type=MERGE_PATCH
        )

    async def delete(self, kind: Kind, namespace: str | None, name: str, uid: str) -> None:
        """Delete this very object; nothing happens when it is gone or replaced by another of the same name."""
        options = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        try:
            await self._request("DELETE", kind, kind.path(namespace, name), body=options)
        except (Gone, Conflict):
            return

    async def evict(self, namespace: str, name: str, uid: str) -> bool:
        """Delete this very pod, if its PodDisruptionBudget allows that now; whether it did, or there was nothing to delete."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        try:
            # A budget refuses with 429, as does a server that has too much to do: whoever asks comes back later.
            await self._request("POST", POD, POD.path(namespace, name, "eviction"), body=eviction, patient=False)
        except (Gone, Conflict):
            return True
        except Requeue:
            return False
        return True

    async def create(
        self, kind: Kind, namespace: str, manifest: Manifest, *, patient: bool = True, dry_run: bool = False
    ) -> Json:
        """Make a new object, or only try. Conflict when one of that name exists."""
        query = {"dryRun": "All"} if dry_run else None
        return await self._request("POST", kind, kind.path(namespace), query=query, body=manifest, patient=patient)

    async def replace(self, kind: Kind, manifest: Manifest, *, patient: bool = True) -> Json:
        """Put the object in the place of the one it was read as. Conflict when that was changed meanwhile."""
        metadata = manifest["metadata"]
        path = kind.path(metadata["namespace"], metadata["name"])
        return await self._request("PUT", kind, path, body=manifest, patient=patient)

    async def _request(
        self,
        method: str,
        kind: Kind,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Manifest | str | None = None,
        content_type: str = "application/json",
        patient: bool = True,
    ) -> Json:
        answered = await self._fetch(
            method, kind, path, query=query, body=body, content_type=content_type, patient=patient
        )
        parsed: Json = json.loads(answered)
        return parsed

    async def _fetch(
        self,
        method: str,
        kind: Kind,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Manifest | str | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        patient: bool = True,
    ) -> str:
        backoff = iter(_BACKOFF if patient else ())
        while True:
            self._check_tenure(method, kind)
            status, headers, content = await self._attempt(
                method, path, query or {}, body, content_type=content_type, accept=accept
            )
            if 200 <= status < 300:
                return content
            if status != 404:
                self._metrics.api_errors.labels(method, kind.plural, str(status or "unreachable")).inc()
            answer = status_object(content)
            message = str(answer.get("message") or f"HTTP {status}")
            if status and status not in _TRANSIENT:
                raise permanent(status, f"{method} {path}: {message}", answer)
            asked = retry_after(headers)
            wait = next(backoff, None)
            if wait is None or asked > _LONGEST_WAIT:
                raise Requeue(f"{method} {path}: {message}", timedelta(seconds=asked or 5))
            # Never earlier than the server asks for, and not all replicas at the same moment.
            await self._sleep(max(asked, wait) * random.uniform(1, 1.3))  # noqa: S311 -- jitter, not a secret

    def _check_tenure(self, method: str, kind: Kind) -> None:
        if self._tenure is not None and method != "GET" and kind != LEASE and not self._tenure.holds():
            raise Requeue(f"{method} {kind.plural}: this replica does not lead any more", timedelta(seconds=5))

    async def _attempt(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Manifest | str | None,
        *,
        content_type: str,
        accept: str,
    ) -> tuple[int, Mapping[str, str], str]:
        """Status (0: no answer), headers and text of one attempt."""
        try:
            request = await self._api.param_serialize(
                method,
                path,
                query_params=list(query.items()),
                header_params={
                    "Accept": accept,
                    # The network of a cluster is quicker than gzip of lists on one side and its undoing on the other.
                    "Accept-Encoding": "identity",
                    "Content-Type": content_type,
                },
                body=dict(body) if isinstance(body, Mapping) else body,
                auth_settings=["BearerToken"],
            )
            response = await self._api.call_api(*request, _request_timeout=aiohttp.ClientTimeout(total=self._timeout))
            content: bytes = await response.read()  # type: ignore[no-untyped-call]
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            return 0, {}, f"the API server does not answer: {error or type(error).__name__}"
        return response.status, response.headers, content.decode(errors="replace")


def as_yaml(manifest: Manifest) -> str:
    """JSON that the API server reads as YAML without loss.

    Go's YAML refuses the pairs of escapes by which JSON writes characters beyond 16 bits (an emoji in an argument), takes no raw
    control characters, and reads some others as line breaks; all else means the same in both.
    """
    text = json.dumps(manifest, ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
