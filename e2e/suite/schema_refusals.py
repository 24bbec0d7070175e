# SPDX-License-Identifier: Apache-2.0
"""What the schema of the definition refuses, in the API server's words."""

from typing import Final

from e2e.suite.refusals import PULL, Refusal, accelerator, scaling, spec, volume

SCHEMA_REFUSALS: Final = (
    Refusal(
        "an instance type without a profile",
        "spec.accelerator.instanceType",
        'Unsupported value: "t3.micro": supported values: "g6e.48xlarge"',
        accelerator(instanceType="t3.micro"),
        accelerator(instanceType="p5.48xlarge"),
    ),
    Refusal(
        "fewer than no engines",
        "spec.prefill.replicas",
        "Invalid value: -1: spec.prefill.replicas in body should be greater than or equal to 0",
        spec(prefill={"replicas": -1}),
        spec(prefill={"replicas": 0}),
    ),
    Refusal(
        "an engine on no GPU",
        "spec.decode.parallelism.tensor",
        "Invalid value: 0: spec.decode.parallelism.tensor in body should be greater than or equal to 1",
        spec(transfer=PULL, decode={"parallelism": {"tensor": 0}}),
        spec(transfer=PULL, decode={"parallelism": {"tensor": 1}}),
    ),
    Refusal(
        "blocks of no tokens",
        "spec.engine.blockSize",
        "Invalid value: 0: spec.engine.blockSize in body should be greater than or equal to 1",
        spec(engine={"blockSize": 0}),
        spec(engine={"blockSize": 1}),
    ),
    Refusal(
        "a front door of no pods",
        "spec.frontDoor.replicas",
        "Invalid value: 0: spec.frontDoor.replicas in body should be greater than or equal to 1",
        spec(frontDoor={"replicas": 0}),
        spec(frontDoor={"replicas": 1}),
    ),
    Refusal(
        "a size that is no quantity",
        "spec.accelerator.sharedMemory",
        'Invalid value: "20GB": spec.accelerator.sharedMemory in body should match',
        accelerator(sharedMemory="20GB"),
        accelerator(sharedMemory="20G"),
    ),
    Refusal(
        "a Secret's name that no object can have",
        "spec.transfer.auth.secretRef.name",
        'Invalid value: "Keys": spec.transfer.auth.secretRef.name in body should match',
        spec(transfer={"auth": {"secretRef": {"name": "Keys", "key": "a"}}}),
        spec(transfer={"auth": {"secretRef": {"name": "keys.a-b", "key": "a"}}}),
    ),
    Refusal(
        "a key that no Secret can have",
        "spec.transfer.auth.secretRef.key",
        'Invalid value: "a/b": spec.transfer.auth.secretRef.key in body should match',
        spec(transfer={"auth": {"secretRef": {"name": "keys", "key": "a/b"}}}),
        spec(transfer={"auth": {"secretRef": {"name": "keys", "key": "A_b.c"}}}),
    ),
    Refusal(
        "a device without its plugin's domain",
        "spec.accelerator.efa.resource",
        'Invalid value: "efa": spec.accelerator.efa.resource in body should match',
        accelerator(efa={"resource": "efa"}),
        accelerator(efa={"resource": "example.com/efa"}),
    ),
    Refusal(
        "an image with a space",
        "spec.engine.image",
        'Invalid value: "vllm:v1 ": spec.engine.image in body should match',
        spec(engine={"image": "vllm:v1 "}),
        spec(engine={"image": "vllm:v1"}),
    ),
    Refusal(
        "a label's value that no node can have",
        "spec.placement.nodeSelector.pool",
        'Invalid value: "-a": spec.placement.nodeSelector.pool in body should match',
        spec(placement={"nodeSelector": {"pool": "-a"}}),
        spec(placement={"nodeSelector": {"pool": ""}}),
    ),
    Refusal(
        "a claim without a name",
        "spec.accelerator.resourceClaims[0].name",
        "Required value",
        accelerator(resourceClaims=[{"resourceClaimTemplateName": "efa"}]),
        accelerator(resourceClaims=[{"name": "efa", "resourceClaimTemplateName": "efa"}]),
    ),
    Refusal(
        "the same variable twice",
        "spec.engine.env[1]",
        'Duplicate value: {"name":"A"}',
        spec(engine={"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}),
        spec(engine={"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}),
    ),
    Refusal(
        "a variable's name with an equals sign",
        "spec.engine.env[0].name",
        'Invalid value: "A=1": spec.engine.env[0].name in body should match',
        spec(engine={"env": [{"name": "A=1"}]}),
        spec(engine={"env": [{"name": "A.1"}]}),
    ),
    Refusal(
        "a relative folder of the host",
        "spec.model.source.volume.hostPath",
        'Invalid value: "models": spec.model.source.volume.hostPath in body should match',
        volume(hostPath="models"),
        volume(hostPath="/models"),
    ),
    Refusal(
        "a deadline that is a number",
        "spec.transfer.deadline",
        'Invalid value: "20": spec.transfer.deadline in body should match',
        spec(transfer={"deadline": "20"}),
        spec(transfer={"deadline": "20s"}),
    ),
    Refusal(
        "more than all as a landing place",
        "spec.transfer.landingFraction",
        'Invalid value: "101%": spec.transfer.landingFraction in body should match',
        spec(transfer={"landingFraction": "101%"}),
        spec(transfer={"landingFraction": "100%"}),
    ),
    Refusal(
        "a fraction as a landing place",
        "spec.transfer.landingFraction",
        'Invalid value: "number"',
        spec(transfer={"landingFraction": 0.25}),
        spec(transfer={"landingFraction": "25%"}),
    ),
    Refusal(
        "a prefill that is asked for fewer than no tokens",
        "spec.transfer.disaggregateAboveTokens",
        "Invalid value: -1: spec.transfer.disaggregateAboveTokens in body should be greater than or equal to 0",
        spec(transfer={"disaggregateAboveTokens": -1}),
        spec(transfer={"disaggregateAboveTokens": 0}),
    ),
    Refusal(
        "fetching that is worth it for no blocks",
        "spec.transfer.minBlocks",
        "Invalid value: 0: spec.transfer.minBlocks in body should be greater than or equal to 1",
        spec(transfer={"minBlocks": 0}),
        spec(transfer={"minBlocks": 1}),
    ),
    *(
        Refusal(
            f"a decode engine that works with {many} prefill engines",
            "spec.transfer.peersPerDecode",
            f"Invalid value: {wrong}: spec.transfer.peersPerDecode in body should be {bound}",
            spec(transfer={"peersPerDecode": wrong}),
            spec(transfer={"peersPerDecode": right}),
        )
        for many, wrong, right, bound in (
            ("no", 0, 1, "greater than or equal to 1"),
            ("more than it can address", 256, 255, "less than or equal to 255"),
        )
    ),
    Refusal(
        "a drain that is a number",
        "spec.scaling.drain.timeout",
        'Invalid value: "60": spec.scaling.drain.timeout in body should match',
        spec(scaling={"drain": {"timeout": "60"}}),
        spec(scaling={"drain": {"timeout": "60s"}}),
    ),
    Refusal(
        "a period that is a number",
        "spec.verification.period",
        'Invalid value: "600": spec.verification.period in body should match',
        spec(verification={"period": "600"}),
        spec(verification={"period": "600s"}),
    ),
    Refusal(
        "a way back that there is not",
        "spec.transfer.reverse",
        'Unsupported value: "Pull"',
        spec(transfer={"reverse": "Pull"}),
        spec(transfer={"reverse": "PushAndFetch"}),
    ),
    Refusal(
        "a key of a Secret without its name in the data",
        "spec.transfer.auth.secretRef.key",
        "Required value",
        spec(transfer={"auth": {"secretRef": {"name": "keys"}}}),
        spec(transfer={"auth": {"secretRef": {"name": "keys", "key": "chat"}}}),
    ),
    *(
        Refusal(
            f"a ratio that {why}",
            "spec.scaling.ratio.min",
            f'Invalid value: "{wrong}": spec.scaling.ratio.min in body should match',
            scaling(ratio={"min": wrong}),
            scaling(ratio={"min": right}),
        )
        for why, wrong, right in (
            ("is a decimal number", "0.25", "1/4"),
            ("is a whole number", "2", "2/1"),
            ("allows no prefill engine", "0/1", "1/99"),
        )
    ),
    Refusal(
        "a ratio that is a number",
        "spec.scaling.ratio.max",
        'Invalid value: "number"',
        scaling(ratio={"max": 0.5}),
        scaling(ratio={"max": "1/2"}),
    ),
    Refusal(
        "a budget of no GPUs",
        "spec.scaling.gpuBudget",
        "Invalid value: 0: spec.scaling.gpuBudget in body should be greater than or equal to 1",
        scaling(gpuBudget=0),
        scaling(gpuBudget=1),
    ),
    Refusal(
        "more engines at most than there may be",
        "spec.prefill.autoscaling.maxReplicas",
        "Invalid value: 1001: spec.prefill.autoscaling.maxReplicas in body should be less than or equal to 1000",
        spec(prefill={"autoscaling": {"maxReplicas": 1001}}),
        spec(prefill={"autoscaling": {"maxReplicas": 1000}}),
    ),
    Refusal(
        "a policy that vllm-router does not have",
        "spec.frontDoor.policy",
        'Unsupported value: "first"',
        spec(frontDoor={"policy": "first"}),
        spec(frontDoor={"policy": "cache_aware"}),
    ),
)
"""Refusals by bounds, patterns and enumerations of the schema; the message is the beginning of the API server's.

Rules may find the same value wrong, or not be tried at all, so these refusals need not be the only ones.
"""
