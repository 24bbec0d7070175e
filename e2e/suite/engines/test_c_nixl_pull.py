# SPDX-License-Identifier: Apache-2.0
"""The same conversation over upstream's connector, whose two legs vllm-router runs."""

import uuid

import pytest

from e2e.cluster.interface import Cluster
from e2e.conversation import Turn, held
from e2e.engine.environment import build_environment
from e2e.engine.model import MODEL_NAME, cached_model
from e2e.installation import front_door, pools_account
from e2e.kubectl import Kubectl
from e2e.logs import logs_if_it_fails
from e2e.ready import wait_until_ready
from e2e.sample import cpu_resource
from tandem_operator.api.transfer import Protocol


@pytest.mark.long
def test_its_text_equals_that_of_one_plain_engine_and_decode_computes_almost_none_of_the_prompts(
    cluster: Cluster, reference: list[Turn]
) -> None:
    kubectl = Kubectl(cluster)
    resource = cpu_resource(
        cluster.facts(), build_environment(), cached_model(), name="pull", protocol=Protocol.NIXL_PULL
    )
    kubectl.apply(resource)
    try:
        # vllm-router asks each leg once: whatever goes wrong at an engine is an error here, and its reason in the engine's log.
        with logs_if_it_fails(kubectl, "pull"):
            wait_until_ready(kubectl, "pull")
            with front_door(cluster, kubectl, "pull") as url:
                turns = list(held(url, MODEL_NAME, session=uuid.uuid4().hex))
            account = pools_account(kubectl, "pull")
    finally:
        kubectl.delete("pdi", "pull", "--wait=true")

    assert [turn.text for turn in turns] == [turn.text for turn in reference]
    assert account.prefill.prompt == sum(turn.prompt_tokens for turn in turns)
    # What decode neither had nor received, it computed: at most one token for each turn.
    assert account.decode.computed <= len(turns)
    assert account.decode.received_bytes > 0
    # Nothing comes back with this protocol.
    assert account.prefill.received_bytes == 0
