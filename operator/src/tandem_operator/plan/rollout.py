# SPDX-License-Identifier: Apache-2.0
"""Where a resource stands between its revisions, and what comes next.

Everything follows from what is observed: from revisions that are kept, sets, pods and their labels. Engines of other revisions go as
those of the target take turns; how many at a time, `plan/surge.py` says.

Where a client may be answered by engines of both revisions, they take turns beside each other. Else one revision takes turns, and
the target takes over when it has all the engines that it gets while the other one is there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tandem_connector.contract.types import Role
from tandem_operator.plan.pods import EnginePod
from tandem_operator.plan.proof import Proof, proof_of
from tandem_operator.plan.quarantine import held_in
from tandem_operator.plan.resolve import resolve
from tandem_operator.plan.resolved import Resolved
from tandem_operator.plan.revision import Revision
from tandem_operator.plan.scaling import NONE, Numbers, greater
from tandem_operator.plan.sets import EngineSet
from tandem_operator.plan.sized import Sized, sized
from tandem_operator.plan.standing import Standing, standing
from tandem_operator.plan.surge import Bounds, Group, Step, step
from tandem_operator.plan.types import Defaults, Observed


@dataclass(frozen=True)
class Rollout:
    """Where a resource stands between its revisions, and what comes next."""

    sized: Sized
    standing: Standing
    replicas: Mapping[str, Numbers]
    """That the target and the others are to have now, by revision."""
    open: frozenset[str]
    """Revisions whose engines may take turns."""
    fronted: Revision
    """The one whose kind of engines the front door leads to."""
    is_frozen: bool
    """It is paused between revisions."""
    is_stuck: bool
    """There is no room for the target's next engine, so that another one goes first."""
    awaits_proof: bool
    """The target's first engines are ready, and KV was not yet seen to move between them."""

    @property
    def resolved(self) -> Resolved:
        """The resource, with as many engines as there are to be in the end."""
        return self.sized.resolved

    @property
    def target(self) -> Revision:
        """What engines are brought to."""
        return self.standing.target

    @property
    def wanted(self) -> Revision:
        """What the spec asks for."""
        return self.standing.wanted

    @property
    def sets(self) -> tuple[EngineSet, ...]:
        """That there are."""
        return self.standing.sets

    @property
    def is_held_back(self) -> bool:
        """It is paused before what the spec asks for was begun."""
        return self.target.name != self.wanted.name and self.wanted.given_up is None

    @property
    def left(self) -> tuple[Revision, ...]:
        """Other revisions that have engines, or are about to."""
        return tuple(each for each in self.standing.others if not self.standing.groups[each.name].is_gone)


def rollout(observed: Observed, pods: Sequence[EnginePod], defaults: Defaults) -> Rollout:
    """Where the resource stands, and what comes next.

    Raises:
        InvalidSpec: when the spec cannot be acted on.
    """
    resolved = resolve(observed.resource, defaults)
    now = standing(observed, pods, resolved)
    size = sized(observed, resolved, now.target.gpus, now.sets)
    labelled = {pod.revision for pod in pods if pod.labelled_routable and not pod.terminating} & now.groups.keys()
    following, has_taken_over = _following(now, size, labelled)
    is_frozen = resolved.pace.paused and sum(group.replicas != NONE for group in now.groups.values()) > 1
    if is_frozen:
        following = Step({name: group.replicas for name, group in now.groups.items()})
    is_up = _can_serve(now.groups[now.target.name], size.wanted)
    can_serve = is_up and _has_shown(observed, resolved, now.target, size.wanted, pods)
    able = [each for each in now.others if now.groups[each.name].proven != NONE]
    fronted = now.target
    if able and not has_taken_over and not (following.has_all_it_gets and can_serve):
        fronted = able[-1]
    others = {each.name for each in now.others if each.beside == fronted.beside}
    own = {now.target.name} if now.target.beside == fronted.beside else set[str]()
    awaits = bool(able) and now.target.name not in labelled and not can_serve
    if awaits:
        own = set()
    open_ = frozenset(labelled if is_frozen and labelled else others | own)
    return Rollout(
        sized=size,
        standing=_with_completion(now, size.wanted) if now.target.name in open_ else now,
        replicas=following.replicas,
        open=open_,
        fronted=fronted,
        is_frozen=is_frozen,
        is_stuck=following.is_stuck,
        awaits_proof=awaits and is_up,
    )


def _following(now: Standing, size: Sized, labelled: set[str]) -> tuple[Step, bool]:
    """The next numbers, and whether engines of the target's kind take turns already."""
    of = {each.name: each for each in (*now.others, now.target)}
    has_taken_over = now.target.beside in {of[name].beside for name in labelled}
    others = [
        replace(group, may_vanish=_may_vanish(each, group, now.target, labelled, has_taken_over=has_taken_over))
        for each in now.others
        if (group := now.groups[each.name])
    ]
    pace = size.resolved.pace
    bounds = Bounds(size.wanted, size.resolved.gpu_budget, pace.surge, at_once=pace.at_once)
    return step(now.groups[now.target.name], others, bounds), has_taken_over


def _may_vanish(
    revision: Revision, group: Group, target: Revision, labelled: set[str], *, has_taken_over: bool
) -> bool:
    if has_taken_over and revision.beside != target.beside:
        return True
    return not revision.was_complete and group.proven == NONE and revision.name not in labelled


def _can_serve(group: Group, wanted: Numbers) -> bool:
    """Whether a turn could be served by these engines as it is by those that are wanted."""
    return all(group.proven.of(role) or not wanted.of(role) for role in Role)


def _has_shown(
    observed: Observed, resolved: Resolved, target: Revision, wanted: Numbers, pods: Sequence[EnginePod]
) -> bool:
    """Whether KV was seen to move between the target's engines, where that can be seen. One that was complete has shown it before."""
    if target.was_complete or not target.exchanges or 0 in wanted:
        return True
    held = held_in(observed.resource.status.quarantined) if observed.resource.status else frozenset()
    own = [pod for pod in pods if pod.revision == target.name and pod.uid not in held]
    return proof_of(resolved, own) in {Proof.SHOWN, Proof.UNKNOWABLE}


def _with_completion(now: Standing, wanted: Numbers) -> Standing:
    """The target remembers that all of its engines could take turns. They are told so in the same look."""
    proven = now.groups[now.target.name].proven
    if wanted == NONE or proven != greater(proven, wanted):
        return now
    target = replace(now.target, was_complete=True, given_up=None)
    return replace(now, target=target, wanted=target if now.wanted.name == target.name else now.wanted)
