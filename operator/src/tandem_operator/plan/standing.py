# SPDX-License-Identifier: Apache-2.0
"""Which revisions a resource has, which one its spec asks for, and which one its engines are brought to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tandem_operator.plan.deadline import why_missed
from tandem_operator.plan.pods import EnginePod
from tandem_operator.plan.proven import is_proven
from tandem_operator.plan.resolved import Resolved
from tandem_operator.plan.revision import Revision
from tandem_operator.plan.revisions import known_revisions, wanted_revision
from tandem_operator.plan.scaling import Numbers
from tandem_operator.plan.sets import EngineSet, engine_sets
from tandem_operator.plan.surge import Group
from tandem_operator.plan.types import Observed


@dataclass(frozen=True)
class Standing:
    """A resource's revisions."""

    sets: tuple[EngineSet, ...]
    wanted: Revision
    """What the spec asks for."""
    target: Revision
    """What engines are brought to: the wanted one, unless that was given up or is not to be begun."""
    others: tuple[Revision, ...]
    """Those with sets, but for the target; those that go first first."""
    groups: Mapping[str, Group]
    """Engines of the target and the others, by revision."""


def standing(observed: Observed, pods: Sequence[EnginePod], resolved: Resolved) -> Standing:
    """The resource's revisions.

    Raises:
        InvalidSpec: when a role's `podTemplate` cannot be merged.
    """
    sets = engine_sets(observed)
    known = known_revisions(observed, resolved, sets)
    wanted = wanted_revision(observed, resolved, known)
    revisions = [known[name] for name in sorted({each.revision for each in sets} - {wanted.name})]
    groups = {each.name: _group(each, sets, pods) for each in (*revisions, wanted)}
    strays = _count([pod for pod in pods if pod.revision not in groups])
    groups[wanted.name] = replace(groups[wanted.name], strays=strays)
    former = sorted(revisions, key=lambda each: _worth(each, groups[each.name]))
    running = [each for each in former if not groups[each.name].is_gone]
    fallback = next((each for each in reversed(running) if each.was_complete), None)
    pace, target = resolved.pace, wanted
    if fallback is None:
        wanted = target = replace(wanted, given_up=None)
    elif not (pace.paused or wanted.given_up or wanted.was_complete):
        wanted = target = replace(wanted, given_up=why_missed(observed, resolved, wanted.name, sets, pods))
    if fallback and wanted.given_up:
        target = fallback
    elif pace.paused and running and groups[wanted.name].is_gone:
        target = running[-1]
    has_sets = {each.revision for each in sets}
    others = [each for each in (wanted, *former) if each.name != target.name and each.name in has_sets]
    return Standing(
        sets=sets,
        wanted=wanted,
        target=target,
        others=tuple(sorted(others, key=lambda each: _worth(each, groups[each.name]))),
        groups={name: group for name, group in groups.items() if name in has_sets or name == target.name},
    )


def _group(revision: Revision, sets: Sequence[EngineSet], pods: Sequence[EnginePod]) -> Group:
    own = [pod for pod in pods if pod.revision == revision.name]
    proven = [pod for pod in own if is_proven(pod)]
    return Group(
        name=revision.name,
        gpus=revision.gpus,
        replicas=Numbers.by(
            lambda role: sum(each.replicas for each in sets if (each.revision, each.role) == (revision.name, role))
        ),
        pods=_count(own),
        proven=_count(proven),
        serving=_count([pod for pod in proven if pod.takes_requests]),
    )


def _count(pods: Sequence[EnginePod]) -> Numbers:
    return Numbers.by(lambda role: sum(pod.role is role for pod in pods))


def _worth(revision: Revision, group: Group) -> tuple[bool, int, int, int, str]:
    """What has been complete, serves more, and is newer goes later."""
    return (revision.was_complete, sum(group.serving), sum(group.pods), revision.number, revision.name)
