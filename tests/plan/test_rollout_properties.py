# SPDX-License-Identifier: Apache-2.0
"""What holds of roll-outs whatever happens: edits, pauses, scaling, failing engines, and the operator killed after any write."""

from collections.abc import Callable
from datetime import timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tandem_connector.contract.types import Role
from tandem_operator.api.status import Reason
from tandem_operator.plan.conversation import Result, Standing
from tandem_operator.plan.scaling import Numbers
from tests.builders import a_resource
from tests.builders.resources import ResourceBuilder
from tests.plan.cluster import SHOWN, Cluster

FAILED = Result(Standing.FAILED, Reason.WRONG_OUTPUT)
SURGE = 1
BUDGET = 12
BAD = "vllm/vllm-openai:v6.6.6"
LAST = "0.35.0"
"""What no story has tried, so that it wasn't given up."""

Change = Callable[[ResourceBuilder], ResourceBuilder]


def _image(version: str) -> Change:
    return lambda resource: resource.with_image(f"vllm/vllm-openai:v{version}")


CONFIGURATIONS: dict[str, Change] = {
    "first": _image("0.32.0"),
    "second": _image("0.33.0"),
    "third": _image("0.34.0"),
    "wider": lambda resource: resource.with_tensor(2),
    "narrower": lambda resource: resource.with_tensor(1),
    "pulling": lambda resource: resource.pulling(),
    "bad": _image("6.6.6"),
}
NUMBERS = [(1, 1), (1, 2), (2, 2), (0, 2), (2, 1)]
"""All of them fit into the budget with two GPUs for each engine."""


@st.composite
def cases(draw: st.DrawFn) -> list[tuple[str, int]]:
    """What happens, in order, each with a number that says which or how much."""
    kinds = [
        "look",
        "look",
        "killed",
        "control",
        "control",
        "start",
        "finish",
        "fail",
        "converse",
        "edit",
        "scale",
        "pause",
        "wait",
    ]
    return draw(st.lists(st.tuples(st.sampled_from(kinds), st.integers(0, 60)), min_size=5, max_size=40))


class Story:
    """A cluster to which things happen, and what must hold after each."""

    def __init__(self, budget: int | None, *, verifies: bool) -> None:
        resource = a_resource().on("p5en.48xlarge").with_prefill(1).with_decode(2)
        resource = resource.with_spec("verification", value={"enabled": verifies})
        resource = resource.with_spec("rollout", value={"progressDeadline": "10m", "maxSurgePairs": SURGE})
        self.resource = resource.with_spec("scaling", value={"gpuBudget": budget}) if budget else resource
        self.budget = budget
        self.wanted = Numbers(1, 2)
        self.cluster = Cluster(self.resource)
        self.cluster.bad = lambda pod: pod.build()["spec"]["containers"][0]["image"] == BAD
        self.cluster.settle()

    def happen(self, kind: str, number: int) -> None:
        cluster = self.cluster
        held, gpus = cluster.held(), cluster.gpus()

        def among(name: str) -> bool:
            return number % 2 == 0 or name.endswith(str(number % 3))

        match kind:
            case "look":
                cluster.look()
            case "killed":
                cluster.look(writes=number)
            case "control":
                cluster.control()
            case "start":
                cluster.start(among)
            case "finish":
                cluster.finish(among)
            case "fail":
                cluster.fail(lambda name: name.endswith(str(number % 3)) and number % 4 == 0)
            case "converse":
                cluster.converse(SHOWN if number % 4 else FAILED)
            case "edit":
                self.edit(list(CONFIGURATIONS.values())[number % len(CONFIGURATIONS)])
            case "scale":
                self.wanted = Numbers(*NUMBERS[number % len(NUMBERS)])
                self.edit(lambda resource: resource)
            case "pause":
                self.resource = self.resource.with_spec("rollout", "paused", value=number % 2 == 0)
                self.edit(lambda resource: resource)
            case "wait":
                cluster.wait(timedelta(minutes=number))
        self.check(held, gpus)

    def edit(self, change: Change) -> None:
        self.resource = change(self.resource).with_prefill(self.wanted.prefill).with_decode(self.wanted.decode)
        self.cluster.edit(self.resource)

    def check(self, held: Numbers, gpus: int) -> None:
        cluster = self.cluster
        assert self.budget is None or cluster.gpus() <= max(gpus, self.budget)
        for role in Role:
            assert cluster.held().of(role) <= max(held.of(role), self.wanted.of(role) + SURGE)
        revision_of = {pod.uid: pod.revision for pod in cluster.pods()}
        for pod in cluster.pods():
            for peer in pod.table.peers if pod.table else ():
                other = revision_of.get(peer.engine.rpartition("-")[0], pod.revision)
                assert peer.role is pod.role or other == pod.revision


@given(story=cases(), budget=st.sampled_from([None, 8, BUDGET]), verifies=st.booleans())
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_no_bound_is_ever_broken_and_every_path_ends_in_what_is_wanted(
    story: list[tuple[str, int]], budget: int | None, verifies: bool
) -> None:
    told = Story(budget, verifies=verifies)
    for kind, number in story:
        told.happen(kind, number)
    told.resource = told.resource.with_spec("rollout", "paused", value=False)
    told.edit(_image(LAST))
    cluster = told.cluster
    for _ in range(80):
        before = cluster.snapshot()
        for kind in ("look", "control", "finish", "start", "converse"):
            told.happen(kind, 2)
        if cluster.snapshot() == before:
            break
    assert cluster.held() == cluster.taking_turns() == told.wanted
    assert {pod.manifest["spec"]["containers"][0]["image"] for pod in cluster.pods()} == {f"vllm/vllm-openai:v{LAST}"}
    assert len(cluster.sets()) == 2
    assert len(cluster.records()) == 1
    assert cluster.status is not None
    conditions = {each.type: each.status for each in cluster.status.conditions}
    assert (conditions["Progressing"], conditions["Degraded"]) == ("False", "False")
    assert conditions["Ready"] == "True" or told.wanted.prefill == 0, "with `NixlPull`, decode by itself serves nobody"


@given(story=cases(), verifies=st.booleans())
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
def test_while_no_engine_fails_there_are_as_many_that_take_turns_as_wanted(
    story: list[tuple[str, int]], verifies: bool
) -> None:
    told = Story(budget=None, verifies=verifies)
    images = [_image("0.33.0"), _image("0.34.0"), _image("6.6.6"), _image("0.32.0")]
    for kind, number in story:
        if kind in ("fail", "scale"):
            continue
        if kind == "edit":
            told.edit(images[number % len(images)])
        else:
            told.happen(kind, 1 if kind == "converse" else number)
        turns = told.cluster.taking_turns()
        assert turns.prefill >= told.wanted.prefill
        assert turns.decode >= told.wanted.decode


@given(story=cases())
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
def test_what_never_works_ends_in_the_last_revision_that_did(story: list[tuple[str, int]]) -> None:
    told = Story(budget=BUDGET, verifies=False)
    told.edit(CONFIGURATIONS["bad"])
    for kind, number in story:
        if kind not in ("edit", "fail", "pause"):
            told.happen(kind, number)
    cluster = told.cluster
    for _ in range(80):
        cluster.round()
        cluster.wait(timedelta(minutes=1))
    assert cluster.held() == cluster.taking_turns() == told.wanted
    assert {pod.manifest["spec"]["containers"][0]["image"] for pod in cluster.pods()} == {"vllm/vllm-openai:v0.32.0"}
    assert cluster.status is not None
    assert {each.type: each.reason for each in cluster.status.conditions}["Degraded"] == "RolledBack"
