# SPDX-License-Identifier: Apache-2.0
"""What holds for any resource and any pods."""

from collections.abc import Sequence
from copy import deepcopy
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_connector.contract.peers import PeerTable
from tandem_connector.contract.types import pod_of
from tandem_operator.plan.outcome import outcome
from tandem_operator.plan.plan import plan
from tandem_operator.plan.pods import EnginePod, engine_pods, living
from tandem_operator.plan.types import Manifest, Observed
from tests.builders import DEFAULTS, carried_out, observed, settled
from tests.plan.strategies import NODES, pods, resources

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MOST_STEPS = 8
"""As many as there can be pods of a scene, and one step for each role that makes room."""


@st.composite
def scenes(draw: st.DrawFn) -> Observed:
    resource = draw(resources())
    return observed(resource, draw(pods(resource)), NODES)


@st.composite
def following(draw: st.DrawFn, before: Observed) -> Observed:
    """Any other pods and any other resource, which remember what they were told before."""
    resource = draw(resources()).with_status(outcome(before, DEFAULTS, NOW).status)
    annotated = {pod["metadata"]["uid"]: pod["metadata"].get("annotations", {}) for pod in before.pods}
    after = observed(resource, draw(pods(resource)), NODES)
    for pod in after.pods:
        pod["metadata"]["annotations"] = annotated.get(pod["metadata"]["uid"], pod["metadata"].get("annotations", {}))
    return after


def told(seen: Observed) -> dict[str, tuple[EnginePod, PeerTable]]:
    """The pods that are told anything, by UID, with their tables."""
    everyone = {pod.uid: (pod, pod.table) for pod in engine_pods(seen) if not pod.is_over}
    return {uid: (pod, table) for uid, (pod, table) in everyone.items() if table is not None}


def tables(seen: Observed) -> dict[str, PeerTable]:
    return {uid: table for uid, (_, table) in told(seen).items()}


@given(seen=scenes())
@settings(deadline=None)
def test_the_same_input_gives_the_same_plan_and_is_left_as_it_was(seen: Observed) -> None:
    before = deepcopy(seen)
    first, second = plan(seen, DEFAULTS), plan(deepcopy(seen), DEFAULTS)
    assert first == second
    assert seen == before


def without_numbers(manifests: Sequence[Manifest]) -> list[Manifest]:
    return [
        {**each, "spec": {key: value for key, value in each["spec"].items() if key != "replicas"}}
        if each["kind"] == "StatefulSet"
        else each
        for each in manifests
    ]


@given(seen=scenes())
@settings(deadline=None)
def test_a_plan_that_was_carried_out_leaves_nothing_to_do_but_the_next_step_of_the_numbers(seen: Observed) -> None:
    again = plan(settled(seen), DEFAULTS)
    assert again.pod_patches == ()
    assert again.obsolete == ()
    assert without_numbers(again.objects) == without_numbers(plan(seen, DEFAULTS).objects)


@given(seen=scenes())
@settings(deadline=None)
def test_the_numbers_come_to_rest(seen: Observed) -> None:
    """Within a budget, one role gives up GPUs before the other may have them; engine by engine, while revisions change."""
    now = seen
    for _ in range(MOST_STEPS):
        now = settled(now)
    assert plan(now, DEFAULTS).objects == plan(settled(now), DEFAULTS).objects


@given(seen=scenes())
@settings(deadline=None)
def test_every_pod_ends_up_with_a_true_table_of_its_own_revision_and_the_other_role_but_for_heirs(
    seen: Observed,
) -> None:
    done = settled(seen)
    everyone = {pod.uid: pod for pod in engine_pods(done)}
    for pod, table in told(done).values():
        assert table.digest == PeerTable.digest_of(table.peers, table.drain, table.gone, table.heir)
        for peer in table.peers:
            other = everyone[pod_of(peer.engine)]
            assert peer == other.peer
            assert peer.revision == pod.revision
            its_heir = other.table.heir if other.table else None
            assert (
                peer.role is pod.role.other or table.heir == peer.engine or (pod.peer and its_heir == pod.peer.engine)
            )
        assert (table.drain is not None) == (pod.terminating and pod.exchanges)
        assert table.drain is None or table.drain.successor == table.heir


@given(seen=scenes())
@settings(deadline=None)
def test_whoever_knows_an_engine_is_known_by_it(seen: Observed) -> None:
    found = told(settled(seen))
    known = {(uid, pod_of(peer.engine)) for uid, (_, table) in found.items() for peer in table.peers}
    assert {(other, one) for one, other in known if found[one][0].peer} <= known, (
        "an engine without a process is unknown"
    )


@given(first=scenes(), data=st.data())
@settings(deadline=None)
def test_who_was_known_and_is_not_any_more_is_gone_or_remembered(first: Observed, data: st.DataObject) -> None:
    before = settled(first)
    second = data.draw(following(before))
    alive, after = living(second), told(settled(second))
    for uid, table in tables(before).items():
        if uid in after:
            pod, now = after[uid]
            listed = {pod_of(peer.engine) for peer in now.peers}
            for peer in table.peers:
                known, at = pod_of(peer.engine), peer.address.host
                # A pod whose node was started anew has another address: what ran at the former one has ended.
                runs = known in alive and alive[known] in (None, at)
                assert known in listed.union(pod.former_peers if runs else now.gone)


@given(first=scenes(), data=st.data())
@settings(deadline=None)
def test_generations_only_grow_and_move_exactly_with_what_a_table_says(first: Observed, data: st.DataObject) -> None:
    before = settled(first)
    old, new = tables(before), tables(settled(data.draw(following(before))))
    for uid in old.keys() & new.keys():
        if old[uid].digest == new[uid].digest:
            assert new[uid] == old[uid]
        else:
            assert new[uid].generation > max(table.generation for table in old.values())


@given(seen=scenes())
@settings(deadline=None)
def test_the_status_remembers_a_generation_that_no_pod_carries_any_more(seen: Observed) -> None:
    done = settled(seen)
    status = outcome(done, DEFAULTS, NOW).status
    assert status.topology.generation >= max((table.generation for table in tables(done).values()), default=0)
    resource = seen.resource.model_copy(update={"status": status})
    empty = Observed(resource=resource, at=NOW, sets=seen.sets, revisions=seen.revisions, front_door=seen.front_door)
    assert outcome(empty, DEFAULTS, NOW).status.topology.generation == status.topology.generation


@given(seen=scenes())
@settings(deadline=None)
def test_a_status_that_was_written_is_followed_by_the_same_one_without_events(seen: Observed) -> None:
    done = carried_out(seen, plan(seen, DEFAULTS))
    first = outcome(done, DEFAULTS, NOW)
    written = Observed(
        at=NOW,
        resource=done.resource.model_copy(update={"status": first.status}),
        sets=done.sets,
        revisions=done.revisions,
        front_door=done.front_door,
        scalers=done.scalers,
        pods=done.pods,
        nodes=done.nodes,
    )
    second = outcome(written, DEFAULTS, datetime(2026, 1, 2, tzinfo=UTC))
    assert second.status == first.status
    assert second.events == ()
