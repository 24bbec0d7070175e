# SPDX-License-Identifier: Apache-2.0
"""An API server in memory, over real HTTP: enough of one for the operator's reads, watches and writes.

It has no schemas, admission, defaulting or garbage collection; those are tested on a real API server (e2e/suite). Server-side
apply is for one manager: what that manager applied before and no longer mentions goes away.
"""

import asyncio
import json
import re
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiohttp import web

Json = dict[str, Any]


class Asked(NamedTuple):
    """One request, as RBAC sees it."""

    verb: str
    group: str
    resource: str


@dataclass(frozen=True)
class _Target:
    api_version: str
    plural: str
    namespace: str | None
    name: str | None
    subresource: str | None

    @property
    def key(self) -> "_Key":
        return _Key(self.api_version, self.plural, self.namespace, self.name or "")


class _Key(NamedTuple):
    api_version: str
    plural: str
    namespace: str | None
    name: str


class _Change(NamedTuple):
    version: int
    type: str
    key: _Key
    object: Json


_PATH = re.compile(
    r"/(?:api|apis)/(?P<version>v1|[a-z0-9.-]+/[a-z0-9]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<subresource>status|eviction))?"
)

Answer = tuple[int, Mapping[str, str], str]
"""Status, headers and body that a test wants a request to get."""


@dataclass
class FakeApi:
    """The server's objects, what it was asked, and ways to make it misbehave."""

    served: Mapping[str, tuple[str, ...]]
    """Plurals by API version, for discovery."""
    objects: dict[_Key, Json] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    writes: list[tuple[str, str, Any]] = field(default_factory=list)
    """Method, path and body of each write, in order."""
    reads: list[str] = field(default_factory=list)
    """Path of each read, in order."""
    discovered: list[str] = field(default_factory=list)
    """Path of each look at what kinds there are."""
    address: str = ""
    """Its URL, once it is served."""

    def __post_init__(self) -> None:
        self._version = 100
        self._changes: list[_Change] = []
        self._interrupted: dict[str, tuple[int, int]] = {}
        """For kinds whose watch was interrupted: the first version that is still known, and the code of the error."""
        self._applied: dict[tuple[_Key, str | None], Json] = {}
        self._answers: deque[tuple[str, str, Answer]] = deque()
        self._hooks: list[tuple[str, str, Callable[[], object]]] = []
        self._news = asyncio.Event()
        """Set, and replaced by a new one, with each change."""
        self._watchers: dict[asyncio.Task[Any], str] = {}
        self._silent = False

    # What tests do to it

    def put(self, plural: str, manifest: Mapping[str, Any]) -> Json:
        """Create or replace an object from outside, as another client would; the object as stored."""
        target = _Key(
            manifest["apiVersion"], plural, manifest["metadata"].get("namespace"), manifest["metadata"]["name"]
        )
        return self._store(target, deepcopy(dict(manifest)))

    def get(self, plural: str, name: str) -> Json | None:
        """The stored object of this name, in whatever namespace."""
        return next((item for key, item in self.objects.items() if (key.plural, key.name) == (plural, name)), None)

    def remove(self, plural: str, name: str) -> None:
        """Delete an object from outside."""
        key = next(key for key in self.objects if (key.plural, key.name) == (plural, name))
        self._delete(key)

    def answer(self, method: str, path_part: str, *answers: Answer) -> None:
        """Give the next requests of this kind these answers instead of the right ones."""
        self._answers.extend((method, path_part, each) for each in answers)

    def before(self, method: str, path_part: str, action: Callable[[], object]) -> None:
        """Do something once, just before the next request of this kind is handled."""
        self._hooks.append((method, path_part, action))

    def is_watched(self, plural: str) -> bool:
        """Whether somebody watches objects of this kind now."""
        return plural in self._watchers.values()

    async def interrupt_watch(
        self, plural: str, meanwhile: Callable[[], None] = lambda: None, *, code: int = 410
    ) -> None:
        """Cut the watches of a kind, change things, and send an error to those who want to go on from before."""
        watchers = [task for task, watched in self._watchers.items() if watched == plural]
        for task in watchers:
            task.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
        meanwhile()
        self._version += 1
        self._interrupted[plural] = (self._version, code)

    def be_silent(self) -> None:
        """Send nothing more on any watch, and do not end them: what a half-open connection looks like."""
        self._silent = True

    # Storage

    def _store(self, key: _Key, item: Json) -> Json:
        old = self.objects.get(key)
        metadata = item["metadata"]
        if old is None:
            metadata.setdefault("uid", str(uuid.uuid4()))
            metadata["generation"] = 1
        else:
            metadata["uid"] = old["metadata"]["uid"]
            if _content(item) == _content(old):
                return old
            changed = item.get("spec") != old.get("spec")
            metadata["generation"] = old["metadata"]["generation"] + changed
        self._version += 1
        metadata["resourceVersion"] = str(self._version)
        self.objects[key] = item
        self._publish("MODIFIED" if old else "ADDED", key, item)
        return item

    def _delete(self, key: _Key) -> Json:
        item = deepcopy(self.objects.pop(key))
        for applied in [applied for applied in self._applied if applied[0] == key]:
            del self._applied[applied]
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        self._publish("DELETED", key, item)
        return item

    def _publish(self, change: str, key: _Key, item: Json) -> None:
        self._changes.append(_Change(self._version, change, key, deepcopy(item)))
        news, self._news = self._news, asyncio.Event()
        news.set()

    # HTTP

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        return application

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        for hook in [each for each in self._hooks if request.method == each[0] and each[1] in request.path]:
            self._hooks.remove(hook)
            hook[2]()
        for canned in self._answers:
            method, part, (status, headers, text) = canned
            if request.method == method and part in request.path:
                self._answers.remove(canned)
                return web.Response(status=status, headers=headers, text=text)
        match = _PATH.fullmatch(request.path)
        if match is None:
            self.discovered.append(request.path)
        if (discovery := self._discover(request.path)) is not None:
            return web.json_response(discovery)
        if match is None or match["plural"] not in self.served.get(match["version"], ()):
            return _failure(404, "the server could not find the requested resource")
        target = _Target(match["version"], match["plural"], match["namespace"], match["name"], match["subresource"])
        return await self._dispatch(request, target)

    async def _dispatch(self, request: web.Request, target: _Target) -> web.StreamResponse:
        is_watch = "watch" in request.query
        self._note(request.method, target, is_watch)
        body = json.loads(await request.read() or "null")
        if request.method == "GET":
            self.reads.append(request.path)
        else:
            self.writes.append((request.method, request.path, body))
        present = self.objects.get(target.key)
        if is_watch:
            return await self._watch(request, target)
        if request.method == "GET" and target.name is None:
            return web.json_response(self._list(request, target))
        if request.method == "POST":
            return self._create(target, body, dry_run="dryRun" in request.query)
        if request.method == "PATCH":
            is_merge = request.content_type == "application/merge-patch+json"
            return (self._merge if is_merge else self._apply)(target, body, present)
        if present is None:
            return _failure(404, f"{target.plural} not found")
        return self._on_present(request.method, target, body, present)

    def _on_present(self, method: str, target: _Target, body: Json, present: Json) -> web.Response:
        match method:
            case "GET":
                return web.json_response(present)
            case "PUT":
                return self._replace(target, body, present)
            case "DELETE" if body["preconditions"]["uid"] != present["metadata"]["uid"]:
                return _failure(409, "Precondition failed: UID")
            case "DELETE":
                return web.json_response(self._delete(target.key))
        return _failure(405, "method not allowed")

    def _note(self, method: str, target: _Target, is_watch: bool) -> None:
        read = "watch" if is_watch else "get" if target.name else "list"
        verbs = {"GET": read, "PATCH": "patch", "POST": "create", "PUT": "update", "DELETE": "delete"}
        resource = f"{target.plural}/{target.subresource}" if target.subresource else target.plural
        group = target.api_version.rpartition("/")[0]
        self.asked.append(Asked(verbs[method], group, resource))
        if method == "PATCH" and target.key not in self.objects:
            self.asked.append(Asked("create", group, resource))

    def _discover(self, path: str) -> Json | None:
        groups = sorted(version.split("/")[0] for version in self.served if "/" in version)
        match path.strip("/").split("/"):
            case ["api"]:
                return {"versions": ["v1"]}
            case ["apis"]:
                return {"groups": [self._group(name) for name in groups]}
            case ["api", version] if version in self.served:
                return self._resources(version)
            case ["apis", group, version] if f"{group}/{version}" in self.served:
                return self._resources(f"{group}/{version}")
        return None

    def _group(self, name: str) -> Json:
        version = next(version for version in self.served if version.startswith(f"{name}/"))
        entry = {"groupVersion": version, "version": version.split("/")[1]}
        return {"name": name, "versions": [entry], "preferredVersion": entry}

    def _resources(self, version: str) -> Json:
        verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
        return {
            "groupVersion": version,
            "resources": [
                {"name": name, "kind": name, "singularName": name, "namespaced": name != "nodes", "verbs": verbs}
                for name in self.served[version]
            ],
        }

    def _matching(self, target: _Target, selector: str) -> Iterator[Json]:
        for key, item in self.objects.items():
            if _concerns(target, key) and _selects(selector, item):
                yield item

    def _list(self, request: web.Request, target: _Target) -> Json:
        items = list(self._matching(target, request.query.get("labelSelector", "")))
        return {"metadata": {"resourceVersion": str(self._version)}, "items": items}

    async def _watch(self, request: web.Request, target: _Target) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._watchers[task] = target.plural
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        seen = int(request.query.get("resourceVersion", "0"))
        try:
            async with asyncio.timeout(float(request.query.get("timeoutSeconds", "3600"))):
                first_known, code = self._interrupted.get(target.plural, (0, 0))
                if seen < first_known:
                    await _send(response, "ERROR", {"kind": "Status", "code": code})
                    return response
                while True:
                    news = self._news
                    for change in [each for each in self._changes if each.version > seen and not self._silent]:
                        seen = change.version
                        selector = request.query.get("labelSelector", "")
                        if _concerns(target, change.key) and _selects(selector, change.object):
                            await _send(response, change.type, change.object)
                    await news.wait()
        except (TimeoutError, ConnectionError):
            return response
        except asyncio.CancelledError:
            if request.transport:
                request.transport.abort()
            raise
        finally:
            self._watchers.pop(task, None)

    def _apply(self, target: _Target, body: Json, present: Json | None) -> web.Response:
        uid = body["metadata"].get("uid")
        if uid and present is None:
            return _failure(409, "uid mismatch: no existing object was found")
        if uid and present and present["metadata"]["uid"] != uid:
            return _failure(422, "field is immutable", causes=[{"field": "metadata.uid"}])
        if present is None and target.subresource:
            return _failure(404, f"{target.plural} not found")
        former = self._applied.get((target.key, target.subresource), {})
        item = _merged(deepcopy(present or {}), former, body)
        self._applied[target.key, target.subresource] = deepcopy(body)
        return web.json_response(self._store(target.key, item), status=200 if present else 201)

    def _merge(self, target: _Target, body: Json, present: Json | None) -> web.Response:
        if present is None:
            return _failure(404, f"{target.plural} not found")
        if body["metadata"].get("uid", present["metadata"]["uid"]) != present["metadata"]["uid"]:
            return _failure(409, "Precondition failed: UID")
        return web.json_response(self._store(target.key, _merged(deepcopy(present), {}, body)))

    def _evict(self, target: _Target, body: Json, present: Json | None) -> web.Response:
        if present is None:
            return _failure(404, f"{target.plural} not found")
        if body["deleteOptions"]["preconditions"]["uid"] != present["metadata"]["uid"]:
            return _failure(409, "Precondition failed: UID")
        return web.json_response(self._delete(target.key), status=201)

    def _create(self, target: _Target, body: Json, *, dry_run: bool) -> web.Response:
        if target.subresource == "eviction":
            return self._evict(target, body, self.objects.get(target.key))
        key = _Key(target.api_version, target.plural, target.namespace, body["metadata"]["name"])
        if key in self.objects:
            return _failure(409, "already exists")
        if dry_run:
            return web.json_response(body, status=201)
        return web.json_response(self._store(key, body), status=201)

    def _replace(self, target: _Target, body: Json, present: Json) -> web.Response:
        if body["metadata"].get("resourceVersion") != present["metadata"]["resourceVersion"]:
            return _failure(409, "the object has been modified")
        return web.json_response(self._store(target.key, body))


def _failure(status: int, message: str, causes: Sequence[Json] = ()) -> web.Response:
    body = {"kind": "Status", "code": status, "message": message, "details": {"causes": causes}}
    return web.json_response(body, status=status)


async def _send(response: web.StreamResponse, change: str, item: Json) -> None:
    await response.write(json.dumps({"type": change, "object": item}).encode() + b"\n")


def _concerns(target: _Target, key: _Key) -> bool:
    same = (key.api_version, key.plural) == (target.api_version, target.plural)
    return same and target.namespace in (None, key.namespace)


def _selects(selector: str, item: Json) -> bool:
    labels = item["metadata"].get("labels") or {}
    for term in re.split(r",(?![^(]*\))", selector) if selector else ():
        if found := re.fullmatch(r"(\S+) in \((.*)\)", term):
            if labels.get(found[1]) not in found[2].split(","):
                return False
        elif "=" in term:
            name, value = term.split("=")
            if labels.get(name) != value:
                return False
        elif term not in labels:
            return False
    return True


def _merged(live: Json, former: Mapping[str, Any], wanted: Mapping[str, Any]) -> Json:
    for name in former.keys() - wanted.keys():
        live.pop(name, None)
    for name, value in wanted.items():
        old = former.get(name)
        if isinstance(value, Mapping) and isinstance(live.get(name), Mapping):
            live[name] = _merged(dict(live[name]), old if isinstance(old, Mapping) else {}, value)
        else:
            live[name] = deepcopy(value)
    return live


def _content(item: Json) -> Json:
    bookkeeping = ("resourceVersion", "generation")
    return {**item, "metadata": {k: v for k, v in item["metadata"].items() if k not in bookkeeping}}
