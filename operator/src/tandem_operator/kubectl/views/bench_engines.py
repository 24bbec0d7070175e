# SPDX-License-Identifier: Apache-2.0
"""What a resource's engines counted while a benchmark ran, of which other clients' requests are a part."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tandem_connector.contract.types import Role
from tandem_operator.api.base import ApiModel
from tandem_operator.kubectl.views.engine_metrics import RECEIVED, TOKENS, Reading, rates
from tandem_operator.kubectl.views.flows import Silent


@dataclass(frozen=True)
class Asked:
    """An engine pod, and what it told."""

    pod: str
    role: Role
    told: Reading | Silent


Readings: TypeAlias = Mapping[str, Asked]
"""Of all engines at one time, by the pod's UID."""


class RoleDid(ApiModel):
    """All engines of one role."""

    role: Role
    prompt_tokens: Mapping[str, int]
    """Of turns that ended, by where their KV came from."""
    received: Mapping[str, int]
    """Bytes of KV that peers wrote into them, by purpose."""


class EnginesDid(ApiModel):
    """Differences of the engines' own counters, after the benchmark and before it."""

    roles: tuple[RoleDid, ...]
    """None of a role of which an engine is untold."""
    untold: tuple[str, ...]
    """Engines that couldn't be read twice, and why."""


def engines_did(before: Readings, after: Readings) -> EnginesDid:
    """What can be told; a sum over some of a role's engines would be taken for all of it."""
    untold: list[str] = []
    incomplete: set[Role] = set()
    tokens: dict[Role, dict[str, float]] = {role: defaultdict(float) for role in Role}
    received: dict[Role, dict[str, float]] = {role: defaultdict(float) for role in Role}
    for uid, asked in {**before, **after}.items():
        match _told(before, uid, "before"), _told(after, uid, "after"):
            case Reading() as first, Reading() as last if rates(first, last):
                _add(tokens[asked.role], first, last, TOKENS)
                _add(received[asked.role], first, last, RECEIVED)
                continue
            case (Silent(why), _) | (_, Silent(why)):
                problem = why
            case _:
                problem = "its engine began anew meanwhile"
        untold.append(f"{asked.pod}: {problem}")
        incomplete.add(asked.role)
    there = {asked.role for asked in before.values()} - incomplete
    roles = (
        RoleDid(role=role, prompt_tokens=_whole(tokens[role]), received=_whole(received[role]))
        for role in Role
        if role in there
    )
    return EnginesDid(roles=tuple(roles), untold=tuple(untold))


def _told(readings: Readings, uid: str, when: str) -> Reading | Silent:
    return readings[uid].told if uid in readings else Silent(f"it wasn't there {when}")


def _add(sums: dict[str, float], first: Reading, last: Reading, counter: str) -> None:
    for label, value in last.counters[counter].items():
        sums[label] += value - first.counters[counter].get(label, 0)


def _whole(sums: Mapping[str, float]) -> dict[str, int]:
    return {label: round(value) for label, value in sorted(sums.items()) if value}
