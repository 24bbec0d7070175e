# SPDX-License-Identifier: Apache-2.0
"""What becomes of an engine pod that is evicted, and whether that is a good idea now."""

from tandem_connector.contract.types import Role
from tandem_operator.api.base import ApiModel
from tandem_operator.kubectl.views.engine import State, engines
from tandem_operator.kubectl.views.seen import Seen


class Drain(ApiModel):
    """One engine pod, before it is evicted."""

    namespace: str
    pod: str
    role: Role
    heir: str | None
    """Pod that gets what it holds; None: nobody, and what it holds is computed again."""
    left: int
    """Engines of its role that take turns without it."""
    problem: str | None
    """Why it is left alone unless forced; None: nothing speaks against it."""


class Drained(ApiModel):
    """What was done about it."""

    drain: Drain
    done: bool
    """Whether the pod is gone, or, where that isn't waited for, on its way."""
    words: str


def drain_of(seen: Seen, pod: str) -> Drain | None:
    """What is known before; None when the resource has no such engine pod."""
    all_ = engines(seen)
    if (engine := next((each for each in all_ if each.pod == pod), None)) is None:
        return None
    left = sum(each.takes_turns and each.role is engine.role and each.pod != pod for each in all_)
    return Drain(
        namespace=seen.observed.resource.metadata.namespace,
        pod=pod,
        role=engine.role,
        heir=engine.heir,
        left=left,
        problem=_problem(engine.state, engine.role, left),
    )


def _problem(state: State, role: Role, left: int) -> str | None:
    if state is State.DRAINING:
        return "it is draining already"
    if not left:
        return f"no other {role} engine takes turns: scale {role} up before, or use --force"
    return None
