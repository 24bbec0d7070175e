# SPDX-License-Identifier: Apache-2.0
"""How long it takes from creating many objects until their engines are ready, and what that costs."""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from e2e.bench.figure import figure
from e2e.bench.topology import pods
from e2e.bench.topology.api import Api, Event, Json
from e2e.bench.topology.process import Usage

_CREATED_AT_ONCE = 8
_SAID_EVERY = 10.0
_LONGEST = 900.0
"""Seconds after which it is given up."""


@dataclass(frozen=True)
class Course:
    """What is brought up."""

    name: str
    """In figures."""
    manifests: Sequence[Json]
    path: str
    """Of their collection."""
    sets: str
    """Path of the objects whose status says that all is up."""
    is_up: Callable[[Json], bool]
    """What it says."""
    expected: int
    """So many of these there will be."""
    pods_selector: str
    engines: int
    processes: Mapping[str, int]
    """Process ids of what takes part, by name in figures."""


@dataclass
class _Progress:
    ready_pods: set[str] = field(default_factory=set)
    sets_up: set[str] = field(default_factory=set)
    pods_at: float = 0.0
    sets_at: float = 0.0
    done: asyncio.Event = field(default_factory=asyncio.Event)


async def rise(api: Api, course: Course) -> float:
    """Create all, wait until all is up, print figures; the seconds that it took."""
    progress = _Progress()

    def see_pod(event: Event) -> None:
        uid = event.object["metadata"]["uid"]
        (progress.ready_pods.add if pods.is_ready(event.object) else progress.ready_pods.discard)(uid)
        if len(progress.ready_pods) == course.engines and not progress.pods_at:
            progress.pods_at = event.at
        _notice(progress)

    def see_set(event: Event) -> None:
        uid = event.object["metadata"]["uid"]
        (progress.sets_up.add if course.is_up(event.object) else progress.sets_up.discard)(uid)
        if len(progress.sets_up) == course.expected and not progress.sets_at:
            progress.sets_at = event.at
        _notice(progress)

    _, pods_version = await api.list(pods.PATH, course.pods_selector)
    _, sets_version = await api.list(course.sets)
    before = {name: Usage.of(pid) for name, pid in course.processes.items()}
    async with pods.background(
        pods.follow(api, pods.PATH, pods_version, course.pods_selector, see_pod),
        pods.follow(api, course.sets, sets_version, "", see_set),
    ):
        began = time.monotonic()
        await _create(api, course)
        created = time.monotonic()
        async with asyncio.timeout(_LONGEST):
            while not progress.done.is_set():
                print(
                    f"{course.name}: {len(progress.ready_pods)} of {course.engines} engines ready, {len(progress.sets_up)} of "
                    f"{course.expected} sets, after {time.monotonic() - began:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
                try:
                    async with asyncio.timeout(_SAID_EVERY):
                        await progress.done.wait()
                except TimeoutError:
                    continue
    figure(f"{course.name}_create", created - began, "s")
    figure(f"{course.name}_engines_ready", progress.pods_at - began, "s")
    figure(f"{course.name}_all_ready", progress.sets_at - began, "s")
    for name, pid in course.processes.items():
        after = Usage.of(pid)
        figure(f"{course.name}_{name}_cpu", after.cpu_seconds - before[name].cpu_seconds, "s")
        figure(f"{course.name}_{name}_memory_at_most", after.most_resident / 2**20, "MiB")
    return progress.sets_at - began


def _notice(progress: _Progress) -> None:
    if progress.pods_at and progress.sets_at:
        progress.done.set()


async def _create(api: Api, course: Course) -> None:
    limit = asyncio.Semaphore(_CREATED_AT_ONCE)

    async def create(manifest: Json) -> None:
        async with limit:
            await api.request("POST", course.path, manifest)

    await asyncio.gather(*map(create, course.manifests))
