# SPDX-License-Identifier: Apache-2.0
"""What the API server refuses, as a table: a wrong change to a valid resource, its right neighbour, and the words.

A change is merged into `BASE`: objects key by key, anything else replaced.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Change = Mapping[str, Any]

BASE: Final[dict[str, Any]] = {
    "apiVersion": "tandem.dev/v1alpha1",
    "kind": "DisaggregatedInference",
    "metadata": {"name": "crd-rules"},
    "spec": {
        "model": {"name": "Qwen/Qwen3-32B"},
        "engine": {"image": "vllm/vllm-openai:v0.32.0"},
        "accelerator": {"instanceType": "p5en.48xlarge"},
        "prefill": {"parallelism": {"tensor": 8}},
        "decode": {"parallelism": {"tensor": 8}},
    },
}


def resource(change: Change) -> dict[str, Any]:
    """`BASE` with `change` merged into it."""
    return _merged(BASE, change)


def _merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in change.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = _merged(result[key], value) if both else value
    return result


@dataclass(frozen=True)
class Refusal:
    """One thing that the API server must not take."""

    name: str
    field: str
    """The field that the refusal blames."""
    message: str
    wrong: Change
    right: Change
    """As near to `wrong` as a valid resource can be."""


def _spec(**parts: Change) -> Change:
    return {"spec": parts}


def _tensor(prefill: int, decode: int) -> dict[str, Change]:
    return {"prefill": {"parallelism": {"tensor": prefill}}, "decode": {"parallelism": {"tensor": decode}}}


def _volume(**fields: str) -> Change:
    return _spec(model={"source": {"volume": fields}})


def _accelerator(**fields: object) -> Change:
    return _spec(accelerator=fields)


_CPU: Final = {"instanceType": "none"}
_PULL: Final = {"protocol": "NixlPull"}

RULE_REFUSALS: Final = (
    Refusal(
        "a name too long for its children",
        "metadata",
        "the name must have at most 44 characters, since names of children are made from it",
        {"metadata": {"name": "a" * 45}},
        {"metadata": {"name": "a" * 44}},
    ),
    Refusal(
        "a name that no Service can have",
        "metadata",
        "the name must start with a letter and have only lower-case letters, digits and '-', since Services are named after it",
        {"metadata": {"name": "3b.qwen"}},
        {"metadata": {"name": "qwen-3b"}},
    ),
    Refusal(
        "two sources of the model",
        "spec.model.source",
        "set only one of huggingFace and volume",
        _spec(model={"source": {"huggingFace": {}, "volume": {"claimName": "weights"}}}),
        _spec(model={"source": {"volume": {"claimName": "weights"}}}),
    ),
    Refusal(
        "a claim and a folder of the host",
        "spec.model.source.volume",
        "set exactly one of claimName and hostPath",
        _volume(claimName="weights", hostPath="/models"),
        _volume(claimName="weights"),
    ),
    Refusal(
        "a volume that is neither a claim nor a folder of the host",
        "spec.model.source.volume",
        "set exactly one of claimName and hostPath",
        _volume(),
        _volume(hostPath="/models"),
    ),
    Refusal(
        "a folder of the host with a way up",
        "spec.model.source.volume.hostPath",
        "must not contain '..'; write the folder's path in full",
        _volume(hostPath="/models/../etc"),
        _volume(hostPath="/models/..etc"),
    ),
    Refusal(
        "a folder outside the volume",
        "spec.model.source.volume.subPath",
        "must be a path inside the volume, without a leading '/' and without '..'",
        _volume(claimName="weights", subPath="qwen/../../etc"),
        _volume(claimName="weights", subPath="qwen/..3"),
    ),
    Refusal(
        "an absolute folder of the volume",
        "spec.model.source.volume.subPath",
        "must be a path inside the volume, without a leading '/' and without '..'",
        _volume(claimName="weights", subPath="/qwen"),
        _volume(claimName="weights", subPath="qwen/3"),
    ),
    *(
        Refusal(
            f"a variable with two values in spec.{part}",
            f"spec.{part}.env[0]",
            "set only one of value and valueFrom",
            _spec(
                **{
                    part: {
                        "env": [{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
                    }
                }
            ),
            _spec(**{part: {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]}}),
        )
        for part in ("engine", "prefill", "decode")
    ),
    *(
        Refusal(
            f"a variable that Tandem sets in spec.{part}",
            f"spec.{part}.env[0]",
            f"only Tandem sets {name}; remove the variable",
            _spec(**{part: {"env": [{"name": name, "value": "1"}]}}),
            _spec(**{part: {"env": [{"name": "PYTHONHASHSEED", "value": "0"}]}}),
        )
        for part, name in (
            ("engine", "PYTHONHASHSEED"),
            ("prefill", "VLLM_NIXL_SIDE_CHANNEL_PORT"),
            ("decode", "TANDEM_ENGINE_ID"),
        )
    ),
    *(
        Refusal(
            f"devices among the {field} of spec.{part}",
            f"spec.{part}.resources.{field}",
            "may have only cpu, memory and ephemeral-storage; use spec.accelerator for GPUs, EFA and huge pages, "
            "podTemplate for others",
            _spec(**{part: {"resources": {field: {"cpu": 8, "nvidia.com/gpu": "8"}}}}),
            _spec(**{part: {"resources": {field: {"cpu": 8, "memory": "64Gi", "ephemeral-storage": "10Gi"}}}}),
        )
        for part in ("prefill", "decode", "frontDoor")
        for field in ("requests", "limits")
    ),
    *(
        Refusal(
            f"{wrong} in the arguments of spec.{part}",
            f"spec.{part}.args",
            f"must not contain {wrong}: Tandem sets it; {remedy}",
            _spec(**{part: {"args": ["--max-num-seqs=8", wrong, "8"]}}),
            _spec(**{part: {"args": ["--max-num-seqs=8", right, "8"]}}),
        )
        for part, wrong, right, remedy in (
            ("engine", "--tensor-parallel-size=8", "--max-model-len=8", "use parallelism.tensor of the role"),
            ("engine", "-tp", "-q", "use parallelism.tensor of the role"),
            ("engine", "--kv-transfer-config.kv_role=kv_both", "--compilation-config.level=3", "use spec.transfer"),
            ("engine", "--block_size", "--max_num_batched_tokens", "use spec.engine.blockSize"),
            ("engine", "--tensor-parallel", "--tensor-parallel-size-of-mine", "use parallelism.tensor of the role"),
            ("prefill", "--port", "--uvicorn-log-level", "Tandem needs it as it is"),
            (
                "prefill",
                "--no-enable-prefix-caching",
                "--no-enable-chunked-prefill",
                "the exchange of KV needs prefix caching",
            ),
            ("decode", "--prefix-caching-hash-algo=sha256_cbor", "--seed=1", "both roles need the same algorithm"),
            ("decode", "--served-model-name", "--model-loader-extra-config", "use spec.model.servedName"),
            ("frontDoor", "--policy=random", "--prefill-policy=random", "use spec.frontDoor.policy"),
            ("frontDoor", "--service-discovery", "--request-timeout-secs", "engines are found by their labels"),
        )
    ),
    Refusal(
        "EFA where there is none",
        "spec.accelerator.efa.perPod",
        "instance type none has no EFA; remove the field, or choose an instance type with EFA",
        _spec(accelerator={**_CPU, "efa": {"perPod": 1}}),
        _spec(accelerator={**_CPU, "efa": {"perPod": 0}}),
    ),
    Refusal(
        "more EFA devices than a node has",
        "spec.accelerator.efa.perPod",
        "17 EFA devices are more than the 16 of a p5en.48xlarge node; ask for fewer, or remove the field",
        _accelerator(efa={"perPod": 17}),
        _accelerator(efa={"perPod": 16}),
    ),
    Refusal(
        "GPUs where there are none",
        "spec.accelerator.gpusPerPod",
        "instance type none has no GPUs; remove the field, or choose an instance type with GPUs",
        _spec(accelerator={**_CPU, "gpusPerPod": 1}),
        _spec(accelerator={**_CPU, "gpusPerPod": 0}),
    ),
    Refusal(
        "huge pages that are not a multiple of their size",
        "spec.accelerator.hugepages2Mi",
        "must be a multiple of 2Mi, for example 5120Mi; remove the field for none",
        _accelerator(hugepages2Mi="5121Mi"),
        _accelerator(hugepages2Mi="5120Mi"),
    ),
    Refusal(
        "huge pages of a fraction of a byte",
        "spec.accelerator.hugepages2Mi",
        "must be a multiple of 2Mi, for example 5120Mi; remove the field for none",
        _accelerator(hugepages2Mi="1m"),
        _accelerator(hugepages2Mi="2Gi"),
    ),
    Refusal(
        "no huge pages, as a number",
        "spec.accelerator.hugepages2Mi",
        "must be a multiple of 2Mi, for example 5120Mi; remove the field for none",
        _accelerator(hugepages2Mi="0"),
        _accelerator(hugepages2Mi="2097152"),
    ),
    Refusal(
        "more huge pages than a node has",
        "spec.accelerator.hugepages2Mi",
        "a node of instance type p5en.48xlarge has at most 42242Mi of huge pages; ask for less, or remove the field",
        _accelerator(hugepages2Mi="42244Mi"),
        _accelerator(hugepages2Mi="42242Mi"),
    ),
    Refusal(
        "huge pages without an accelerator",
        "spec.accelerator.hugepages2Mi",
        "a node of instance type none has at most 0Mi of huge pages; ask for less, or remove the field",
        _spec(accelerator={**_CPU, "hugepages2Mi": "2Mi"}),
        _spec(accelerator=_CPU),
    ),
    *(
        Refusal(
            f"a transfer's {field} that vLLM's connector does not know",
            f"spec.transfer.{field}",
            "has no effect with NixlPull; remove the field, or use Push",
            _spec(transfer={"protocol": "NixlPull", "reverse": "Disabled", field: value}),
            _spec(transfer={"protocol": "Push", "reverse": "Disabled", field: value}),
        )
        for field, value in {
            "disaggregateAboveTokens": 0,
            "deadline": "20s",
            "landingFraction": "0%",
            "minBlocks": 1,
            "auth": {"secretRef": {"name": "keys", "key": "chat"}},
        }.items()
    ),
    *(
        Refusal(
            f"a deadline {why}",
            "spec.transfer.deadline",
            "must be above 0s and at most 30m, for example 20s",
            _spec(transfer={"deadline": wrong}),
            _spec(transfer={"deadline": right}),
        )
        for why, wrong, right in (
            ("of nothing", "0s", "1ms"),
            ("of nothing in two parts", "0h0.0m", "0h0.1m"),
            ("longer than anything takes", "30m1ms", "30m"),
        )
    ),
    Refusal(
        "Push between engines that are split differently",
        "spec.decode.parallelism.tensor",
        "8 and spec.prefill.parallelism.tensor, which is 4: Push needs equal ones; make them equal, or set "
        "spec.transfer.protocol to NixlPull",
        _spec(**_tensor(4, 8)),
        _spec(transfer={"protocol": "NixlPull"}, **_tensor(4, 8)),
    ),
    Refusal(
        "NixlPull without the front door that runs it",
        "spec.frontDoor.enabled",
        "NixlPull needs the front door, which runs its two legs; remove the field, or use Push",
        _spec(transfer={"protocol": "NixlPull"}, frontDoor={"enabled": False}),
        _spec(transfer={"protocol": "Push"}, frontDoor={"enabled": False}),
    ),
    Refusal(
        "tensor-parallel sizes that do not divide each other",
        "spec.decode.parallelism.tensor",
        "6 and spec.prefill.parallelism.tensor, which is 4: one must be a multiple of the other",
        _spec(transfer=_PULL, **_tensor(4, 6)),
        _spec(transfer=_PULL, **_tensor(4, 8)),
    ),
    *(
        Refusal(
            f"an engine of {role} on more GPUs than a node has",
            f"spec.{role}.parallelism.tensor",
            "16 GPUs are more than the 8 of a p5en.48xlarge node; an engine cannot span nodes yet",
            _spec(transfer=_PULL, **{role: {"parallelism": {"tensor": 16}}}),
            _spec(transfer=_PULL, accelerator=_CPU, **{role: {"parallelism": {"tensor": 16}}}),
        )
        for role in ("prefill", "decode")
    ),
    *(
        Refusal(
            f"GPUs of a pod that are not the tensor-parallel size of {role}",
            "spec.accelerator.gpusPerPod",
            f"8 GPUs do not match spec.{role}.parallelism.tensor, which is 4; make them equal, or remove the field",
            _spec(transfer=_PULL, accelerator={"gpusPerPod": 8}, **{role: {"parallelism": {"tensor": 4}}}),
            _spec(transfer=_PULL, accelerator={"gpusPerPod": 8}, **{role: {"parallelism": {"tensor": 8}}}),
        )
        for role in ("prefill", "decode")
    ),
    *(
        Refusal(
            f"an engine of {role} whose share of the node's EFA devices is none",
            f"spec.{role}.parallelism.tensor",
            "1 of the 8 GPUs of a p4d.24xlarge node have no whole EFA device of its 4; raise the value, or set "
            "spec.accelerator.efa.perPod, or set spec.transfer.backend to UCX",
            _spec(
                transfer=_PULL, accelerator={"instanceType": "p4d.24xlarge"}, **{role: {"parallelism": {"tensor": 1}}}
            ),
            _spec(
                transfer=_PULL, accelerator={"instanceType": "p4d.24xlarge"}, **{role: {"parallelism": {"tensor": 2}}}
            ),
        )
        for role in ("prefill", "decode")
    ),
    Refusal(
        "EFA devices for UCX",
        "spec.transfer.backend",
        "UCX does not use EFA devices; use LIBFABRIC, or remove spec.accelerator.efa.perPod",
        _spec(transfer={"backend": "UCX"}, accelerator={"efa": {"perPod": 16}}),
        _spec(transfer={"backend": "UCX"}),
    ),
    Refusal(
        "LIBFABRIC on an instance type without EFA",
        "spec.transfer.backend",
        "LIBFABRIC needs EFA devices; use UCX, or an instance type with EFA and spec.accelerator.efa.perPod above 0 or absent",
        _spec(transfer={"backend": "LIBFABRIC"}, accelerator=_CPU),
        _spec(transfer={"backend": "UCX"}, accelerator=_CPU),
    ),
    Refusal(
        "LIBFABRIC without the EFA devices that the instance type has",
        "spec.transfer.backend",
        "LIBFABRIC needs EFA devices; use UCX, or an instance type with EFA and spec.accelerator.efa.perPod above 0 or absent",
        _spec(transfer={"backend": "LIBFABRIC"}, accelerator={"efa": {"perPod": 0}}),
        _spec(transfer={"backend": "LIBFABRIC"}, accelerator={"efa": {"perPod": 1}}),
    ),
)
"""Refusals by the rules, at least one for each."""

SCHEMA_REFUSALS: Final = (
    Refusal(
        "an instance type without a profile",
        "spec.accelerator.instanceType",
        'Unsupported value: "t3.micro": supported values: "g6e.48xlarge"',
        _accelerator(instanceType="t3.micro"),
        _accelerator(instanceType="p5.48xlarge"),
    ),
    Refusal(
        "fewer than no engines",
        "spec.prefill.replicas",
        "Invalid value: -1: spec.prefill.replicas in body should be greater than or equal to 0",
        _spec(prefill={"replicas": -1}),
        _spec(prefill={"replicas": 0}),
    ),
    Refusal(
        "an engine on no GPU",
        "spec.decode.parallelism.tensor",
        "Invalid value: 0: spec.decode.parallelism.tensor in body should be greater than or equal to 1",
        _spec(transfer=_PULL, decode={"parallelism": {"tensor": 0}}),
        _spec(transfer=_PULL, decode={"parallelism": {"tensor": 1}}),
    ),
    Refusal(
        "blocks of no tokens",
        "spec.engine.blockSize",
        "Invalid value: 0: spec.engine.blockSize in body should be greater than or equal to 1",
        _spec(engine={"blockSize": 0}),
        _spec(engine={"blockSize": 1}),
    ),
    Refusal(
        "a front door of no pods",
        "spec.frontDoor.replicas",
        "Invalid value: 0: spec.frontDoor.replicas in body should be greater than or equal to 1",
        _spec(frontDoor={"replicas": 0}),
        _spec(frontDoor={"replicas": 1}),
    ),
    Refusal(
        "a size that is no quantity",
        "spec.accelerator.sharedMemory",
        'Invalid value: "20GB": spec.accelerator.sharedMemory in body should match',
        _accelerator(sharedMemory="20GB"),
        _accelerator(sharedMemory="20G"),
    ),
    Refusal(
        "a claim without a name",
        "spec.accelerator.resourceClaims[0].name",
        "Required value",
        _accelerator(resourceClaims=[{"resourceClaimTemplateName": "efa"}]),
        _accelerator(resourceClaims=[{"name": "efa", "resourceClaimTemplateName": "efa"}]),
    ),
    Refusal(
        "the same variable twice",
        "spec.engine.env[1]",
        'Duplicate value: {"name":"A"}',
        _spec(engine={"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}),
        _spec(engine={"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}),
    ),
    Refusal(
        "a variable's name with an equals sign",
        "spec.engine.env[0].name",
        'Invalid value: "A=1": spec.engine.env[0].name in body should match',
        _spec(engine={"env": [{"name": "A=1"}]}),
        _spec(engine={"env": [{"name": "A.1"}]}),
    ),
    Refusal(
        "a relative folder of the host",
        "spec.model.source.volume.hostPath",
        'Invalid value: "models": spec.model.source.volume.hostPath in body should match',
        _volume(hostPath="models"),
        _volume(hostPath="/models"),
    ),
    Refusal(
        "a deadline that is a number",
        "spec.transfer.deadline",
        'Invalid value: "20": spec.transfer.deadline in body should match',
        _spec(transfer={"deadline": "20"}),
        _spec(transfer={"deadline": "20s"}),
    ),
    Refusal(
        "more than all as a landing place",
        "spec.transfer.landingFraction",
        'Invalid value: "101%": spec.transfer.landingFraction in body should match',
        _spec(transfer={"landingFraction": "101%"}),
        _spec(transfer={"landingFraction": "100%"}),
    ),
    Refusal(
        "a fraction as a landing place",
        "spec.transfer.landingFraction",
        'Invalid value: "number"',
        _spec(transfer={"landingFraction": 0.25}),
        _spec(transfer={"landingFraction": "25%"}),
    ),
    Refusal(
        "a prefill that is asked for fewer than no tokens",
        "spec.transfer.disaggregateAboveTokens",
        "Invalid value: -1: spec.transfer.disaggregateAboveTokens in body should be greater than or equal to 0",
        _spec(transfer={"disaggregateAboveTokens": -1}),
        _spec(transfer={"disaggregateAboveTokens": 0}),
    ),
    Refusal(
        "fetching that is worth it for no blocks",
        "spec.transfer.minBlocks",
        "Invalid value: 0: spec.transfer.minBlocks in body should be greater than or equal to 1",
        _spec(transfer={"minBlocks": 0}),
        _spec(transfer={"minBlocks": 1}),
    ),
    Refusal(
        "a way back that there is not",
        "spec.transfer.reverse",
        'Unsupported value: "Pull"',
        _spec(transfer={"reverse": "Pull"}),
        _spec(transfer={"reverse": "PushAndFetch"}),
    ),
    Refusal(
        "a key of a Secret without its name in the data",
        "spec.transfer.auth.secretRef.key",
        "Required value",
        _spec(transfer={"auth": {"secretRef": {"name": "keys"}}}),
        _spec(transfer={"auth": {"secretRef": {"name": "keys", "key": "chat"}}}),
    ),
    Refusal(
        "a policy that vllm-router does not have",
        "spec.frontDoor.policy",
        'Unsupported value: "first"',
        _spec(frontDoor={"policy": "first"}),
        _spec(frontDoor={"policy": "cache_aware"}),
    ),
)
"""Refusals by bounds, patterns and enumerations of the schema; the message is the beginning of the API server's.

Rules may find the same value wrong, or not be tried at all, so these refusals need not be the only ones.
"""
