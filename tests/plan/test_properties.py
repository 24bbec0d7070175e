# SPDX-License-Identifier: Apache-2.0
"""What holds for any resource and any pods."""

from copy import deepcopy
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_connector.contract.peers import PeerTable
from tandem_operator.api.names import PEERS_ANNOTATION
from tandem_operator.plan.outcome import outcome
from tandem_operator.plan.plan import plan
from tandem_operator.plan.types import Manifest, Observed
from tests.builders import DEFAULTS, carried_out, observed, settled
from tests.plan.strategies import NODES, pods, resources

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@st.composite
def scenes(draw: st.DrawFn) -> Observed:
    resource = draw(resources())
    return observed(resource, draw(pods(resource)), NODES)


def tables(seen: Observed) -> dict[str, PeerTable]:
    return {pod["metadata"]["uid"]: _table(pod) for pod in seen.pods}


def _table(pod: Manifest) -> PeerTable:
    return PeerTable.model_validate_json(pod["metadata"]["annotations"][PEERS_ANNOTATION])


@given(seen=scenes())
@settings(deadline=None)
def test_the_same_input_gives_the_same_plan_and_is_left_as_it_was(seen: Observed) -> None:
    before = deepcopy(seen)
    first, second = plan(seen, DEFAULTS), plan(deepcopy(seen), DEFAULTS)
    assert first == second
    assert seen == before


@given(seen=scenes())
@settings(deadline=None)
def test_a_plan_that_was_carried_out_leaves_nothing_to_do(seen: Observed) -> None:
    done = settled(seen)
    again = plan(done, DEFAULTS)
    assert again.pod_patches == ()
    assert again.obsolete == ()
    assert again.objects == plan(seen, DEFAULTS).objects


@given(seen=scenes())
@settings(deadline=None)
def test_every_pod_ends_up_with_a_true_table_of_the_other_role_and_its_own_revision(seen: Observed) -> None:
    done = settled(seen)
    by_name = {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in done.pods}
    for pod in done.pods:
        table = _table(pod)
        labels = pod["metadata"]["labels"]
        assert table.digest == PeerTable.digest_of(table.peers)
        for peer in table.peers:
            assert peer.role != labels["tandem.dev/role"]
            assert peer.revision == labels["tandem.dev/revision"] == by_name[peer.pod]["tandem.dev/revision"]


@given(first=scenes(), data=st.data())
@settings(deadline=None)
def test_generations_only_grow_and_move_exactly_with_what_a_table_says(first: Observed, data: st.DataObject) -> None:
    before = settled(first)
    resource = data.draw(resources()).with_status(outcome(before, DEFAULTS, NOW).status)
    annotated = {pod["metadata"]["uid"]: pod["metadata"]["annotations"] for pod in before.pods}
    second = observed(resource, data.draw(pods(resource)), NODES)
    for pod in second.pods:
        pod["metadata"]["annotations"] = annotated.get(pod["metadata"]["uid"], pod["metadata"].get("annotations", {}))
    after = settled(second)
    old, new = tables(before), tables(after)
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
    empty = Observed(resource=resource, sets=seen.sets, front_door=seen.front_door)
    assert outcome(empty, DEFAULTS, NOW).status.topology.generation == status.topology.generation


@given(seen=scenes())
@settings(deadline=None)
def test_a_status_that_was_written_is_followed_by_the_same_one_without_events(seen: Observed) -> None:
    done = carried_out(seen, plan(seen, DEFAULTS))
    first = outcome(done, DEFAULTS, NOW)
    written = Observed(
        resource=done.resource.model_copy(update={"status": first.status}),
        sets=done.sets,
        front_door=done.front_door,
        pods=done.pods,
        nodes=done.nodes,
    )
    second = outcome(written, DEFAULTS, datetime(2026, 1, 2, tzinfo=UTC))
    assert second.status == first.status
    assert second.events == ()
