# SPDX-License-Identifier: Apache-2.0
"""Roll-outs, in a small cluster that plans are carried out in."""

from datetime import timedelta
from typing import Any

import pytest

from tandem_connector.contract.types import Role
from tandem_operator.api.names import COMPLETE_ANNOTATION, GIVEN_UP_ANNOTATION
from tandem_operator.api.status import Reason
from tandem_operator.plan.conversation import Result, Standing
from tandem_operator.plan.scaling import Numbers
from tests.builders import a_resource
from tests.builders.resources import ResourceBuilder
from tests.plan.cluster import Cluster, of_revision, upgraded

P, D = Role.PREFILL, Role.DECODE


def a_service(prefill: int = 1, decode: int = 2, **rollout: Any) -> ResourceBuilder:
    resource = a_resource().on("p5en.48xlarge").with_prefill(prefill).with_decode(decode)
    resource = resource.with_spec("verification", value={"enabled": False})
    return resource.with_spec("rollout", value=rollout) if rollout else resource


def changed(resource: ResourceBuilder, version: str = "0.33.0") -> ResourceBuilder:
    return resource.with_image(f"vllm/vllm-openai:v{version}")


def running(resource: ResourceBuilder) -> Cluster:
    """A cluster in which the resource is complete."""
    cluster = Cluster(resource)
    cluster.settle()
    return cluster


def only(cluster: Cluster) -> str:
    """The one revision of all pods."""
    (name,) = cluster.revisions()
    return name


def names(cluster: Cluster) -> set[str]:
    return {each["metadata"]["name"] for each in cluster.sets()}


def condition(cluster: Cluster, kind: str) -> tuple[str, str, str]:
    assert cluster.status is not None
    (found,) = [each for each in cluster.status.conditions if each.type == kind]
    return found.status, found.reason, found.message


def test_the_first_revision_has_sets_that_are_named_after_the_roles() -> None:
    cluster = running(a_service())
    assert names(cluster) == {"qwen-prefill", "qwen-decode"}
    assert cluster.status is not None
    assert (cluster.status.revision.current, cluster.status.revision.next) == (only(cluster), "")


def test_a_change_brings_new_engines_beside_the_old_ones_which_go_as_they_take_turns() -> None:
    cluster = running(a_service(2, 4))
    old = only(cluster)
    cluster.edit(changed(cluster.resource))
    cluster.look()
    assert cluster.taking_turns() == (2, 4)
    cluster.control()
    assert cluster.held() == (3, 5)
    assert cluster.status is not None
    assert cluster.status.revision.current == old
    assert cluster.status.revision.next not in ("", old)
    cluster.start()
    cluster.look()
    assert cluster.taking_turns() == (3, 5), "both take turns"
    cluster.look()
    cluster.control()
    assert cluster.held() == (3, 5), "what ends holds its GPUs"
    cluster.settle()
    assert cluster.held() == (2, 4)
    assert only(cluster) != old
    suffix = only(cluster)[:5]
    assert names(cluster) == {f"qwen-p-{suffix}", f"qwen-d-{suffix}"}
    assert len(cluster.records()) == 1
    assert condition(cluster, "Ready")[0] == "True"


@pytest.mark.parametrize("numbers", [(1, 1), (2, 4), (0, 3), (1, 8)])
def test_there_are_never_fewer_engines_that_take_turns_than_wanted_where_there_is_room(
    numbers: tuple[int, int],
) -> None:
    cluster = running(a_service(*numbers))
    cluster.edit(changed(cluster.resource))
    old = only(cluster)
    for _ in range(60):
        for happens in (cluster.look, cluster.control, cluster.start, cluster.look, cluster.control, cluster.finish):
            happens()
            assert cluster.taking_turns() >= Numbers(*numbers)
            assert cluster.taking_turns().decode >= numbers[1]
            held = cluster.held()
            assert held.prefill <= numbers[0] + 1
            assert held.decode <= numbers[1] + 1
    assert only(cluster) != old


def test_without_room_an_old_engine_goes_before_a_new_one_comes_and_it_says_so() -> None:
    cluster = running(a_service(2, 2).with_spec("scaling", value={"gpuBudget": 4}))
    old = only(cluster)
    cluster.edit(changed(cluster.resource))
    told = []
    for _ in range(40):
        for happens in (cluster.look, cluster.control, cluster.start, cluster.look, cluster.control, cluster.finish):
            happens()
            assert cluster.gpus() <= 4
            assert min(cluster.taking_turns()) >= 1, "one of each role is missing at most"
        told.append(condition(cluster, "Progressing")[2])
    assert only(cluster) != old
    assert cluster.held() == (2, 2)
    assert any("leave no room" in message for message in told)


def test_with_no_surge_it_is_the_same_without_a_budget() -> None:
    cluster = running(a_service(1, 3, maxSurgePairs=0))
    cluster.edit(changed(cluster.resource))
    for _ in range(40):
        cluster.round()
        assert cluster.held().decode <= 3
        assert cluster.held().prefill <= 1
    assert len(cluster.revisions()) == 1
    assert cluster.held() == (1, 3)


def test_engines_that_need_more_gpus_get_them_within_the_budget() -> None:
    cluster = running(a_service(2, 2).with_spec("scaling", value={"gpuBudget": 16}))
    old = only(cluster)
    cluster.edit(cluster.resource.with_tensor(4))
    for _ in range(60):
        cluster.round()
        assert cluster.gpus() <= 16
    assert only(cluster) != old
    assert cluster.held() == (2, 2)


def test_recreate_takes_all_old_engines_before_the_first_new_one() -> None:
    cluster = running(a_service(2, 2, strategy="Recreate"))
    old = only(cluster)
    cluster.edit(changed(cluster.resource))
    for _ in range(10):
        cluster.round()
        assert len(cluster.revisions()) <= 1
    assert only(cluster) != old
    assert cluster.held() == (2, 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda resource: resource.with_spec("frontDoor", "replicas", value=3),
        lambda resource: resource.with_spec("transfer", "peersPerDecode", value=1),
        lambda resource: resource.with_spec("scaling", value={"ratio": {"min": "1/9"}}),
        lambda resource: resource.with_spec("decode", "parallelism", value={"tensor": 1}),
        lambda resource: resource,
    ],
)
def test_what_needs_no_new_engines_makes_none(change: Any) -> None:
    cluster = running(a_service())
    before = {pod.uid for pod in cluster.pods()}
    cluster.edit(change(cluster.resource))
    cluster.settle()
    assert {pod.uid for pod in cluster.pods()} == before


def test_another_version_of_the_operator_restarts_nobody_until_the_spec_of_engines_changes() -> None:
    cluster = running(a_service())
    before = {pod.uid for pod in cluster.pods()}
    upgraded(cluster)
    cluster.edit(cluster.resource.with_decode(3))
    cluster.settle()
    assert {pod.uid for pod in cluster.pods()} >= before
    images = {pod.manifest["spec"]["initContainers"][0]["image"] for pod in cluster.pods()}
    assert len(images) == 1, "a new engine is as the others are"
    cluster.edit(changed(cluster.resource))
    cluster.settle()
    (image,) = {pod.manifest["spec"]["initContainers"][0]["image"] for pod in cluster.pods()}
    assert image.endswith("9.9.9")


def test_after_its_record_was_deleted_a_revision_is_rendered_anew() -> None:
    cluster = running(a_service())
    upgraded(cluster)
    (record,) = cluster.records()
    cluster.remove("ControllerRevision", record["metadata"]["name"])
    for _ in range(30):
        cluster.round()
        assert cluster.taking_turns().decode >= 2
    (image,) = {pod.manifest["spec"]["initContainers"][0]["image"] for pod in cluster.pods()}
    assert image.endswith("9.9.9")


def test_an_edit_back_reuses_the_old_engines() -> None:
    cluster = running(a_service(1, 4))
    before, resource = {pod.uid for pod in cluster.pods()}, cluster.resource
    cluster.edit(changed(resource))
    for _ in range(3):
        cluster.round()
    kept = before & {pod.uid for pod in cluster.pods()}
    assert len(cluster.revisions()) == 2
    cluster.edit(resource)
    cluster.settle()
    assert kept <= {pod.uid for pod in cluster.pods()}
    assert names(cluster) == {"qwen-prefill", "qwen-decode"}


def test_of_two_edits_in_quick_succession_the_revision_between_goes_at_once() -> None:
    cluster = running(a_service(1, 2))
    cluster.edit(changed(cluster.resource))
    cluster.look()
    cluster.control()
    between = cluster.status.revision.next if cluster.status else ""
    cluster.edit(changed(cluster.resource, "0.34.0"))
    for _ in range(30):
        cluster.round()
        assert cluster.held().prefill <= 2
        assert cluster.held().decode <= 3
    assert between not in cluster.revisions()
    assert len(cluster.records()) == len(cluster.revisions()) == 1


def test_a_pause_freezes_a_roll_out_and_its_end_lets_it_go_on() -> None:
    cluster = running(a_service(1, 3))
    cluster.edit(changed(cluster.resource))
    for _ in range(2):
        cluster.round()
    cluster.edit(cluster.resource.with_spec("rollout", value={"paused": True}))
    cluster.settle()
    before = cluster.snapshot()
    assert len(cluster.revisions()) == 2
    assert condition(cluster, "Progressing")[:2] == ("False", "RolloutPaused")
    cluster.edit(changed(cluster.resource, "0.34.0").with_decode(5))
    cluster.settle()
    assert cluster.snapshot()[:2] == before[:2], "nothing is begun, and nothing grows"
    cluster.edit(cluster.resource.with_spec("rollout", value={}))
    cluster.settle()
    assert len(cluster.revisions()) == 1
    assert cluster.held() == (1, 5)


def test_a_pause_before_a_roll_out_holds_it_back_and_engines_scale_on() -> None:
    cluster = running(a_service(1, 1))
    old = only(cluster)
    cluster.edit(changed(cluster.resource).with_spec("rollout", value={"paused": True}).with_decode(3))
    cluster.settle()
    assert only(cluster) == old
    assert cluster.held() == (1, 3)
    assert condition(cluster, "Ready")[:2] == ("False", "RolloutPaused")
    assert cluster.status is not None
    assert cluster.status.revision.current == old
    assert cluster.status.revision.next not in ("", old)


def test_a_revision_that_misses_its_deadline_is_rolled_back_and_says_why() -> None:
    cluster = running(a_service(1, 2, progressDeadline="10m"))
    old, good = only(cluster), cluster.resource
    cluster.edit(changed(cluster.resource))
    cluster.look()
    bad = cluster.status.revision.next if cluster.status else ""
    cluster.bad = of_revision(bad)
    for _ in range(5):
        cluster.round()
        cluster.wait(timedelta(minutes=1))
    assert bad in cluster.revisions()
    cluster.wait(timedelta(minutes=6))
    cluster.settle()
    assert only(cluster) == old
    assert cluster.held() == (1, 2)
    status, reason, message = condition(cluster, "Degraded")
    assert (status, reason) == ("True", "RolledBack")
    assert "no engine became ready in 10m" in message
    assert "RolledBack" in cluster.events
    assert condition(cluster, "Available")[0] == "True"
    cluster.wait(timedelta(hours=9))
    cluster.settle()
    assert only(cluster) == old
    cluster.edit(good)
    cluster.settle()
    assert condition(cluster, "Ready")[0] == "True"


def test_a_revision_that_is_gone_back_to_before_it_was_complete_has_its_time_anew() -> None:
    cluster = running(a_service(1, 2, progressDeadline="10m"))
    old, once = only(cluster), cluster.resource.with_arguments("--max-num-seqs=6")
    cluster.edit(once)
    cluster.look()
    half = cluster.status.revision.next if cluster.status else ""
    able = {"qwen-prefill-0", "qwen-decode-0", "qwen-decode-1", f"qwen-p-{half[:5]}-0", f"qwen-d-{half[:5]}-0"}
    cluster.bad = lambda pod: pod.build()["metadata"]["name"] not in able
    cluster.settle()
    cluster.wait(timedelta(minutes=8))
    cluster.edit(once.with_arguments("--max-num-seqs=7"))
    cluster.settle()
    cluster.wait(timedelta(minutes=8))
    assert half in cluster.revisions(), "its engines serve until there are better ones"
    cluster.edit(once)
    cluster.settle()
    assert condition(cluster, "Degraded")[1] != "RolledBack"
    cluster.wait(timedelta(minutes=8))
    cluster.settle()
    assert condition(cluster, "Degraded")[1] != "RolledBack"
    cluster.wait(timedelta(minutes=3))
    cluster.settle()
    assert condition(cluster, "Degraded")[1] == "RolledBack"
    assert only(cluster) == old


def test_a_revision_that_was_given_up_is_tried_again_when_the_mark_is_taken_away() -> None:
    cluster = running(a_service(1, 2, progressDeadline="10m"))
    cluster.edit(changed(cluster.resource))
    cluster.look()
    bad = cluster.status.revision.next if cluster.status else ""
    cluster.bad = of_revision(bad)
    cluster.round()
    cluster.wait(timedelta(minutes=11))
    cluster.settle()
    assert bad not in cluster.revisions()
    cluster.bad = lambda pod: False
    cluster.change(
        "ControllerRevision", f"qwen-{bad}", lambda each: each["metadata"]["annotations"].pop(GIVEN_UP_ANNOTATION)
    )
    cluster.settle()
    assert only(cluster) == bad


def test_the_time_of_a_pause_does_not_count() -> None:
    cluster = running(a_service(1, 2, progressDeadline="10m"))
    cluster.edit(changed(cluster.resource))
    cluster.look()
    bad = cluster.status.revision.next if cluster.status else ""
    cluster.bad = of_revision(bad)
    cluster.round()
    cluster.edit(cluster.resource.with_spec("rollout", "paused", value=True))
    cluster.round()
    cluster.wait(timedelta(hours=1))
    cluster.round()
    cluster.edit(cluster.resource.with_spec("rollout", "paused", value=False))
    cluster.round()
    assert bad in cluster.revisions()
    cluster.round()
    assert bad in cluster.revisions()
    cluster.wait(timedelta(minutes=11))
    cluster.settle()
    assert bad not in cluster.revisions()


def test_a_first_revision_has_nothing_to_go_back_to_and_says_so() -> None:
    cluster = Cluster(a_service(progressDeadline="10m"))
    cluster.bad = lambda pod: True
    cluster.settle()
    assert condition(cluster, "Degraded")[0] == "False"
    cluster.wait(timedelta(minutes=11))
    cluster.settle()
    assert condition(cluster, "Degraded")[:2] == ("True", "ProgressDeadline")
    assert cluster.held() == (1, 2)


def test_where_one_revision_must_answer_at_a_time_the_new_one_takes_over_all_at_once() -> None:
    cluster = running(a_service(2, 2, maxSurgePairs=2).pulling())
    old = only(cluster)
    cluster.edit(changed(cluster.resource))
    for _ in range(30):
        for happens in (cluster.look, cluster.control, cluster.start, cluster.look, cluster.control, cluster.finish):
            happens()
            turns = {pod.revision for pod in cluster.pods() if pod.takes_requests}
            assert len(turns) == 1
            assert cluster.taking_turns() >= (2, 2)
    assert only(cluster) != old


def test_another_api_key_is_asked_for_by_all_engines_from_one_moment_on() -> None:
    def asking_for(secret: str) -> ResourceBuilder:
        reference = {"name": "VLLM_API_KEY", "valueFrom": {"secretKeyRef": {"name": secret, "key": "key"}}}
        return a_service(2, 2, maxSurgePairs=2).with_spec("engine", "env", value=[reference])

    cluster = running(asking_for("key-1"))
    old = only(cluster)
    cluster.edit(asking_for("key-2"))
    for _ in range(30):
        for happens in (cluster.look, cluster.control, cluster.start, cluster.look, cluster.control, cluster.finish):
            happens()
            assert len({pod.revision for pod in cluster.pods() if pod.takes_requests}) == 1
            assert cluster.taking_turns() >= (2, 2)
    assert only(cluster) != old


def test_pairs_never_cross_revisions() -> None:
    cluster = running(a_service(2, 2))
    cluster.edit(changed(cluster.resource))
    for _ in range(10):
        cluster.round()
        revision_of = {pod.name: pod.revision for pod in cluster.pods()}
        for pod in cluster.pods():
            for peer in pod.table.peers if pod.table else ():
                assert peer.role is pod.role or revision_of.get(peer.pod, pod.revision) == pod.revision


def heirs_of(cluster: Cluster, revision: str) -> dict[str, str]:
    """By pod of the revision, the revision of the heir in its table."""
    of = {pod.peer.engine: pod.revision for pod in cluster.pods() if pod.peer}
    found = {pod.name: pod.table.heir for pod in cluster.pods() if pod.revision == revision and pod.table}
    return {name: of[heir] for name, heir in found.items() if heir}


def in_the_midst(resource: ResourceBuilder, change: ResourceBuilder) -> tuple[Cluster, str, str]:
    """A cluster with engines of two revisions that are ready, and the revisions' names."""
    cluster = running(resource)
    old = only(cluster)
    cluster.edit(change)
    for happens in (cluster.look, cluster.control, cluster.start, cluster.look):
        happens()
    (new,) = cluster.revisions() - {old}
    return cluster, old, new


def test_conversations_move_to_the_new_revision_where_it_can_use_what_the_old_one_holds() -> None:
    resource = a_service(1, 3)
    cluster, old, new = in_the_midst(resource, resource.with_arguments("--max-num-seqs=8"))
    heirs = heirs_of(cluster, old)
    assert heirs["qwen-decode-2"] == heirs["qwen-decode-1"] == new, (
        "those that end first, as many as one engine succeeds"
    )
    assert heirs["qwen-decode-0"] == old
    assert heirs["qwen-prefill-0"] == new
    assert set(heirs_of(cluster, new).values()) <= {new}
    cluster.look()
    before = cluster.snapshot()
    cluster.look()
    assert cluster.snapshot() == before
    cluster.settle()
    assert only(cluster) == new


@pytest.mark.parametrize(
    "change",
    [
        changed,
        lambda resource: resource.with_arguments("--max-model-len=8192"),
        lambda resource: resource.with_spec("engine", "env", value=[{"name": "A", "value": "b"}]),
        lambda resource: resource.with_spec("model", "revision", value="other"),
        lambda resource: resource.with_tensor(2),
    ],
)
def test_they_stay_where_what_it_holds_may_be_something_else(change: Any) -> None:
    resource = a_service(1, 3)
    cluster, old, _ = in_the_midst(resource, change(resource))
    assert set(heirs_of(cluster, old).values()) == {old}
    for pod in cluster.pods():
        of = {each.name: each.revision for each in cluster.pods()}
        assert {of[peer.pod] for peer in (pod.table.peers if pod.table else ())} <= {pod.revision}


def unproven(resource: ResourceBuilder) -> Cluster:
    """In the midst of a roll-out whose new engines are ready, and haven't shown that KV moves."""
    cluster = running(resource.with_spec("verification", value={"enabled": True}))
    cluster.edit(changed(cluster.resource))
    cluster.settle()
    return cluster


def test_a_new_revision_takes_no_turns_until_kv_was_seen_to_move_between_its_engines() -> None:
    cluster = unproven(a_service(1, 2))
    assert len(cluster.revisions()) == 2
    assert cluster.taking_turns() == (1, 2), "the old ones"
    assert cluster.held() == (2, 3), "none of them goes"
    assert "once KV was seen to move" in condition(cluster, "Progressing")[2]
    cluster.converse()
    cluster.look()
    cluster.look()
    assert cluster.taking_turns() == (2, 3)
    cluster.settle()
    assert len(cluster.revisions()) == 1, "later ones take turns as they are ready"
    assert cluster.held() == (1, 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda resource: resource.with_spec("verification", value={"enabled": False}),
        lambda resource: resource.with_prefill(0),
    ],
)
def test_where_it_cannot_be_seen_nobody_waits_for_it(change: Any) -> None:
    cluster = unproven(a_service(1, 2))
    cluster.edit(change(cluster.resource))
    cluster.settle()
    assert len(cluster.revisions()) == 1


def test_an_engine_that_asks_for_a_key_is_not_waited_for() -> None:
    cluster = unproven(a_service(1, 2))
    cluster.converse(Result(Standing.OPEN, Reason.KEY_REQUIRED, "why"))
    cluster.settle()
    assert len(cluster.revisions()) == 1


def test_where_nobody_else_takes_turns_new_ones_do_without_a_proof() -> None:
    cluster = unproven(a_service(1, 2))
    (new,) = cluster.revisions() - {pod.revision for pod in cluster.pods() if pod.takes_requests}
    cluster.fail(lambda name: new[:5] not in name)
    cluster.settle()
    assert cluster.taking_turns() == (1, 2)
    assert cluster.revisions() == {new}


def test_one_that_never_shows_that_kv_moves_is_rolled_back_and_says_why() -> None:
    cluster = unproven(a_service(1, 1, progressDeadline="10m"))
    (old,) = {pod.revision for pod in cluster.pods() if pod.takes_requests}
    cluster.converse(Result(Standing.FAILED, Reason.WRONG_OUTPUT, "other words"))
    cluster.settle()
    assert cluster.taking_turns() == (1, 1)
    cluster.wait(timedelta(minutes=11))
    cluster.settle()
    assert only(cluster) == old
    assert condition(cluster, "Degraded")[1] == "RolledBack"
    assert "KV was not seen to move" in condition(cluster, "Degraded")[2]
    assert "other words" in condition(cluster, "Degraded")[2]


def test_only_engines_that_are_as_the_spec_says_are_conversed_with() -> None:
    cluster = unproven(a_service(1, 1))
    takes_turns = {pod.uid for pod in cluster.pods() if pod.takes_requests}
    (target,) = cluster.report().targets
    assert target.pod not in takes_turns


def test_it_says_so_where_there_is_no_complete_revision_to_go_back_to() -> None:
    cluster = unproven(a_service(1, 1, progressDeadline="10m"))
    for record in cluster.records():
        record["metadata"]["annotations"].pop(COMPLETE_ANNOTATION, None)
    cluster.wait(timedelta(minutes=11))
    cluster.settle()
    assert len(cluster.revisions()) == 2
    assert condition(cluster, "Degraded")[:2] == ("True", "ProgressDeadline")
    assert "KV was not seen to move" in condition(cluster, "Degraded")[2]
