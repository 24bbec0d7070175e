# SPDX-License-Identifier: Apache-2.0
"""What Argo CD shows of Tandem's resources, whose statuses are the operator's own here."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_operator.api.names import KIND, SCALER_KIND
from tandem_operator.api.status import ConditionType, Reason
from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.types import Observed
from tests.manifests.argocd_states import SEEN, limited, scaler, seen_as, with_condition
from tests.manifests.checking import documents
from tests.manifests.health import health
from tests.plan.test_outcome import ALL_WELL

STATUSES = {"Healthy", "Progressing", "Degraded", "Suspended"}
"""All that a script may answer."""


@pytest.mark.parametrize(
    ("seen", "status", "message"),
    SEEN,
)
def test_a_resource_is_shown_as_the_operator_sees_it(seen: Observed, status: str, message: str) -> None:
    shown = health(seen_as(seen))

    assert shown[0] == status
    assert shown[1].startswith(message)


def test_an_invalid_resource_is_degraded_while_its_engines_answer() -> None:
    shown = seen_as(ALL_WELL, problem=InvalidSpec("spec.decode", "is wrong"))

    assert health(shown) == ("Degraded", "Invalid: spec.decode: is wrong")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (ConditionType.FABRIC_ACTIVE, Reason.TCP_FALLBACK),
        (ConditionType.KV_TRANSFER_VERIFIED, Reason.NOTHING_MOVED),
    ],
)
def test_engines_that_answer_without_exchanging_as_asked_are_degraded(kind: ConditionType, reason: Reason) -> None:
    assert health(with_condition(seen_as(ALL_WELL), kind, "False", reason)) == ("Degraded", f"{reason}: words")
    assert health(with_condition(seen_as(ALL_WELL), kind, "Unknown", reason))[0] == "Healthy"


def test_a_roll_out_that_is_paused_is_suspended() -> None:
    paused = with_condition(seen_as(ALL_WELL), ConditionType.READY, "False", Reason.ROLLOUT_PAUSED)
    paused = with_condition(paused, ConditionType.PROGRESSING, "False", Reason.ROLLOUT_PAUSED)

    assert health(paused) == ("Suspended", "RolloutPaused: words")


def test_a_resource_that_the_operator_has_not_seen_is_progressing() -> None:
    new = {**seen_as(ALL_WELL), "status": None}
    changed = seen_as(ALL_WELL)
    changed["metadata"]["generation"] += 1

    assert health(new) == ("Progressing", "the operator has not seen it yet")
    assert health(changed) == ("Progressing", "the operator has not seen the last change yet")


@given(
    statuses=st.dictionaries(st.sampled_from(ConditionType), st.sampled_from(["True", "False", "Unknown"])),
    reason=st.sampled_from(Reason),
)
@settings(max_examples=60)
def test_whatever_the_conditions_are_the_script_has_an_answer(
    statuses: dict[ConditionType, str], reason: Reason
) -> None:
    given_ = [{"type": str(kind), "status": at, "reason": reason, "message": "x"} for kind, at in statuses.items()]
    manifest = {"kind": KIND, "metadata": {"generation": 3}, "status": {"observedGeneration": 3, "conditions": given_}}

    assert health(manifest)[0] in STATUSES


def test_a_scaler_is_healthy_when_the_engines_that_there_are_take_turns_whatever_bounds_them() -> None:
    assert health(scaler(replicas=2, readyReplicas=2)) == ("Healthy", "2 of 2 engines take turns")
    assert health(scaler(replicas=2, readyReplicas=1))[0] == "Progressing"
    assert health({**scaler(), "status": None})[0] == "Progressing"
    assert health({**scaler(), "metadata": {"generation": 3}})[0] == "Progressing"
    assert health(limited(replicas=2, readyReplicas=2)) == (
        "Healthy",
        "2 of 2 engines take turns, GpuBudget: no GPUs",
    )


def test_the_operator_comes_before_what_it_serves_and_both_are_applied_by_the_server() -> None:
    operator, models = documents("argocd/applications.yaml")
    waves = [each["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"] for each in (operator, models)]

    assert waves == ["0", "1"]
    for each in (operator, models):
        assert "ServerSideApply=true" in each["spec"]["syncPolicy"]["syncOptions"]
        assert each["metadata"]["annotations"]["argocd.argoproj.io/compare-options"] == "ServerSideDiff=true"
        assert "finalizers" not in each["metadata"]


def test_an_autoscalers_number_is_neither_a_difference_nor_undone() -> None:
    models = documents("argocd/applications.yaml")[1]

    assert {"group": "tandem.dev", "kind": SCALER_KIND, "jsonPointers": ["/spec/replicas"]} in models["spec"][
        "ignoreDifferences"
    ]
    assert "RespectIgnoreDifferences=true" in models["spec"]["syncPolicy"]["syncOptions"]
