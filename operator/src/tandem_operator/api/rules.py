# SPDX-License-Identifier: Apache-2.0
"""The rules that the API server checks: CEL expressions with a message that names the field and the remedy.

Numbers in the rules come from `accelerators.PROFILES`. Each rule is tested on a real API server.
"""

import json
from typing import Any, Final

from tandem_operator.api.accelerators import PROFILES
from tandem_operator.api.names import MAX_NAME_LENGTH

Rule = tuple[str, str]
"""A CEL expression that must be true, and the message when it is not."""


def rules(entries: list[Rule]) -> dict[str, Any]:
    """The entries as JSON-schema extras of a model. A message that starts with `=` is itself a CEL expression."""
    return {"x-kubernetes-validations": [_rule(expression, message) for expression, message in entries]}


def _rule(expression: str, message: str) -> dict[str, str]:
    if message.startswith("="):
        return {"rule": expression, "messageExpression": message[1:]}
    return {"rule": expression, "message": message}


def _text(value: str) -> str:
    return json.dumps(value)


def _table(values: dict[str, int]) -> str:
    return "{" + ", ".join(f"{_text(key)}: {value}" for key, value in sorted(values.items())) + "}"


GPUS: Final = _table({profile.instance_type: profile.gpus for profile in PROFILES.values()})
EFAS: Final = _table({profile.instance_type: profile.efas for profile in PROFILES.values()})
HUGEPAGES: Final = _table({profile.instance_type: profile.hugepages_mebibytes for profile in PROFILES.values()})

OWNED_ARGUMENTS: Final = {
    "--model": "spec.model.name",
    "--served-model-name": "spec.model.servedName",
    "--revision": "spec.model.revision",
    "--tensor-parallel-size": "parallelism.tensor of the role",
    "-tp": "parallelism.tensor of the role",
    "--pipeline-parallel-size": "nothing: pipeline parallelism is not supported yet",
    "-pp": "nothing: pipeline parallelism is not supported yet",
    "--data-parallel-size": "replicas of the role",
    "-dp": "replicas of the role",
    "--block-size": "spec.engine.blockSize",
    "--kv-transfer-config": "spec.transfer",
    "--host": "nothing: engines listen on the pod's address",
    "--port": "nothing: the port is fixed",
    "--prefix-caching-hash-algo": "nothing: both roles need the same algorithm",
    "--no-enable-prefix-caching": "nothing: the exchange of KV needs prefix caching",
    "--enable-prefix-caching": "nothing: prefix caching is always on",
    "--config": "args, env and the fields of the resource",
    "--shutdown-timeout": "podTemplate.spec.terminationGracePeriodSeconds of the role",
}
"""Arguments of vLLM that Tandem sets, and what to use instead."""

OWNED_FRONT_DOOR_ARGUMENTS: Final = {
    "--host": "nothing: the front door listens on the pod's address",
    "--port": "nothing: the port is fixed",
    "--policy": "spec.frontDoor.policy",
    "--service-discovery": "nothing: engines are found by their labels",
    "--selector": "nothing: engines are found by their labels",
    "--prefill-selector": "nothing: engines are found by their labels",
    "--decode-selector": "nothing: engines are found by their labels",
    "--vllm-pd-disaggregation": "spec.transfer.protocol",
    "--kv-connector": "spec.transfer.protocol",
}
"""Arguments of vllm-router that Tandem sets, and what to use instead."""


def _forbids(path: str, owned: dict[str, str]) -> list[Rule]:
    names = "[" + ", ".join(_text(name) for name in owned) + "]"
    remedies = "{" + ", ".join(f"{_text(name)}: {_text(remedy)}" for name, remedy in owned.items()) + "}"
    # vLLM takes `_` for `-` in option names and `--option.key value` for JSON options.
    option = "a.split('=')[0].split('.')[0].replace('_', '-')"
    return [
        (
            f"!has(self.args) || self.args.all(a, !({option} in {names}))",
            f'="{path} must not contain " + self.args.filter(a, {option} in {names})[0] + ": Tandem sets it; use "'
            f" + {remedies}[self.args.filter(a, {option} in {names}).map(a, {option})[0]]",
        )
    ]


def ARGUMENT_RULES(path: str) -> list[Rule]:  # noqa: N802 - a table like the others, with the field's path in its text
    """Rules of a model with an `args` list for vLLM at `path`."""
    return _forbids(path, OWNED_ARGUMENTS)


FRONT_DOOR_ARGUMENT_RULES: Final = _forbids("spec.frontDoor.args", OWNED_FRONT_DOOR_ARGUMENTS)

_EFA_WANTED = "(has(self.efa) && has(self.efa.perPod) && self.efa.perPod > 0)"

ACCELERATOR_RULES: Final[list[Rule]] = [
    (
        f"!{_EFA_WANTED} || {EFAS}[self.instanceType] > 0",
        "='spec.accelerator.efa.perPod: instance type ' + self.instanceType"
        " + ' has no EFA; remove the field or choose an instance type with EFA'",
    ),
    (
        f"!{_EFA_WANTED} || {EFAS}[self.instanceType] == 0 || self.efa.perPod <= {EFAS}[self.instanceType]",
        "='spec.accelerator.efa.perPod: ' + string(self.efa.perPod) + ' is more than the ' + "
        f"string({EFAS}[self.instanceType]) + ' that ' + self.instanceType + ' has'",
    ),
    (
        f"!has(self.gpusPerPod) || self.gpusPerPod <= {GPUS}[self.instanceType]",
        "='spec.accelerator.gpusPerPod: ' + string(self.gpusPerPod) + ' is more than the ' + "
        f"string({GPUS}[self.instanceType]) + ' that ' + self.instanceType + ' has'",
    ),
    (
        "!has(self.hugepages2Mi) || quantity(self.hugepages2Mi).asInteger() % 2097152 == 0",
        "spec.accelerator.hugepages2Mi must be a multiple of 2Mi, for example 5120Mi",
    ),
    (
        f"!has(self.hugepages2Mi) || quantity(self.hugepages2Mi).asInteger() <= {HUGEPAGES}[self.instanceType] * 1048576",
        "='spec.accelerator.hugepages2Mi: a ' + self.instanceType + ' node has at most ' + "
        f"string({HUGEPAGES}[self.instanceType]) + 'Mi; ask for less'",
    ),
]


def _tensor(role: str) -> str:
    path = f"self.{role}.parallelism"
    return f"(has({path}) && has({path}.tensor) ? {path}.tensor : 1)"


_P, _D = _tensor("prefill"), _tensor("decode")
_TYPE = "self.accelerator.instanceType"
_GPUS_PER_POD = "self.accelerator.gpusPerPod"
_EFA_PER_POD = "self.accelerator.efa.perPod"
_NO_EFA = f"({EFAS}[{_TYPE}] == 0 || (has(self.accelerator.efa) && has({_EFA_PER_POD}) && {_EFA_PER_POD} == 0))"
_BACKEND = "self.transfer.backend"
_HAS_BACKEND = f"(has(self.transfer) && has({_BACKEND}))"
_IS_PULL = "(!has(self.transfer) || !has(self.transfer.protocol) || self.transfer.protocol == 'NixlPull')"

SPEC_RULES: Final[list[Rule]] = [
    (
        _IS_PULL,
        "spec.transfer.protocol: Push is not available yet in this version; use NixlPull",
    ),
    (
        f"!{_IS_PULL} || !has(self.frontDoor) || !has(self.frontDoor.enabled) || self.frontDoor.enabled",
        "spec.frontDoor.enabled: NixlPull needs the front door, which runs its two legs; remove the field",
    ),
    (
        f"{_P} % {_D} == 0 || {_D} % {_P} == 0",
        "spec.prefill.parallelism.tensor and spec.decode.parallelism.tensor: one must be a multiple of the other",
    ),
    *(
        (
            f"{_TYPE} == 'none' || {tensor} <= {GPUS}[{_TYPE}]",
            f"='spec.{role}.parallelism.tensor: ' + string({tensor}) + ' GPUs are more than the ' + "
            f"string({GPUS}[{_TYPE}]) + ' of one ' + {_TYPE} + ' node'",
        )
        for role, tensor in (("prefill", _P), ("decode", _D))
    ),
    *(
        (
            f"!has({_GPUS_PER_POD}) || {_TYPE} == 'none' || {_GPUS_PER_POD} == {tensor}",
            f"='spec.accelerator.gpusPerPod is ' + string({_GPUS_PER_POD}) + ' but spec.{role}.parallelism.tensor is ' + "
            f"string({tensor}) + ': make them equal, or remove gpusPerPod'",
        )
        for role, tensor in (("prefill", _P), ("decode", _D))
    ),
    (
        f"!{_HAS_BACKEND} || {_BACKEND} != 'UCX' || {_NO_EFA}",
        "spec.transfer.backend: UCX does not reach EFA's bandwidth; use LIBFABRIC, or set spec.accelerator.efa.perPod to 0",
    ),
    (
        f"!{_HAS_BACKEND} || {_BACKEND} != 'LIBFABRIC' || !{_NO_EFA}",
        "spec.transfer.backend: LIBFABRIC needs EFA; use UCX, or an instance type with EFA",
    ),
]

RESOURCE_RULES: Final[list[Rule]] = [
    (
        f"size(self.metadata.name) <= {MAX_NAME_LENGTH}",
        f"metadata.name must have at most {MAX_NAME_LENGTH} characters, since names of children are made from it",
    ),
    (
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "metadata.name must start with a letter and have only lower-case letters, digits and '-', since Services are named after it",
    ),
]
