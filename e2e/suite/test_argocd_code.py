# SPDX-License-Identifier: Apache-2.0
"""Argo CD's own code, built from its module, reads what `manifests/argocd` tells it. No Argo CD runs."""

import json
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from e2e.cluster.binary import build_argocd
from tandem_operator.api.names import API_VERSION, SCALER_KIND
from tests.manifests.argocd_states import drawn, recorded
from tests.manifests.checking import Manifest, documents, of_kind
from tests.manifests.health import health

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]  # Most of it builds Argo CD, once.


def asked(objects: Sequence[Manifest] = (), pairs: Sequence[Manifest] = ()) -> dict[str, list[Any]]:
    """What Argo CD says of the health of the objects, and whether the two of each pair differ."""
    config_map = of_kind("argocd/argocd-cm.yaml", "ConfigMap")
    question = json.dumps({"configMap": config_map, "objects": list(objects), "pairs": list(pairs)})
    done = subprocess.run([build_argocd()], input=question, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, list[Any]] = json.loads(done.stdout)
    return answer


def a_scaler(replicas: int) -> Manifest:
    metadata = {"name": "qwen-decode", "namespace": "models"}
    return {"apiVersion": API_VERSION, "kind": SCALER_KIND, "metadata": metadata, "spec": {"replicas": replicas}}


def test_argo_cd_shows_in_every_state_what_the_plain_interpreter_says() -> None:
    states = [*recorded(), *drawn(500)]

    shown = asked(states)["health"]

    assert [(each["status"], each["message"], each["error"]) for each in shown] == [
        (*health(state), "") for state in states
    ]
    assert {each["status"] for each in shown} == {"Healthy", "Progressing", "Degraded", "Suspended"}


def test_argo_cd_knows_no_health_of_what_the_scripts_are_not_for() -> None:
    other = {"apiVersion": API_VERSION, "kind": "Another", "metadata": {"name": "a"}}

    assert asked([other])["health"] == [{"status": "", "message": "", "error": ""}]


def test_an_autoscalers_number_is_no_difference_to_argo_cd_and_would_be_one_if_it_were_not_ignored() -> None:
    ignored = documents("argocd/applications.yaml")[1]["spec"]["ignoreDifferences"]
    scaled = {"git": a_scaler(1), "live": a_scaler(3)}
    labelled = {**a_scaler(3), "metadata": {**a_scaler(3)["metadata"], "labels": {"a": "b"}}}

    pairs = [
        {**scaled, "ignoreDifferences": ignored},
        {**scaled, "ignoreDifferences": []},
        {"git": labelled, "live": a_scaler(3), "ignoreDifferences": ignored},
    ]

    assert asked(pairs=pairs)["differ"] == [False, True, True]
