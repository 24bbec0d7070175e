# SPDX-License-Identifier: Apache-2.0
"""The rules that the API server checks across fields, model by model.

Numbers come from `accelerators.PROFILES`. Each rule is tested on a real API server, with a neighbour that it lets through.
"""

from typing import Final

from tandem_operator.api.accelerators import HYPERPOD_PREFIX, NO_ACCELERATOR, PROFILES
from tandem_operator.api.arguments import OWNED_VARIABLES
from tandem_operator.api.names import MAX_NAME_LENGTH
from tandem_operator.api.rule import Rule, Verdict, cel_map, cel_text
from tandem_operator.api.scaling_rules import scaling_rules

DEFAULT_PROTOCOL: Final = "Push"
LONGEST_DEADLINE: Final = "30m"
SHORTEST_DRAIN: Final = "5s"
"""The front door needs as long to learn that an engine takes no more turns."""
LONGEST_DRAIN: Final = "1h"
SHORTEST_PERIOD: Final = "30s"
LONGEST_PERIOD: Final = "24h"
MAX_PEERS: Final = 255
"""Engines that one engine can address: NIXL's libfabric backend numbers them with 8 bits."""

_GPUS: Final = cel_map({profile.instance_type: profile.gpus for profile in PROFILES.values()})
_EFAS: Final = cel_map({profile.instance_type: profile.efas for profile in PROFILES.values()})
_HUGEPAGES: Final = cel_map({profile.instance_type: profile.hugepages_mebibytes for profile in PROFILES.values()})


def _kind(instance_type: str) -> str:
    """The key of these maps."""
    return f"{instance_type}.replace({cel_text(HYPERPOD_PREFIX)}, '')"


METADATA_RULES: Final = (
    Rule(
        holds=f"size(self.metadata.name) <= {MAX_NAME_LENGTH}",
        message=f"the name must have at most {MAX_NAME_LENGTH} characters, since names of children are made from it",
        at=".metadata",
        verdict=Verdict.INVALID,
    ),
    Rule(
        holds="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        message="the name must start with a letter and have only lower-case letters, digits and '-', "
        "since Services are named after it",
        at=".metadata",
        verdict=Verdict.INVALID,
    ),
)

VOLUME_SOURCE_RULES: Final = (
    Rule(
        holds="has(self.claimName) != has(self.hostPath)",
        message="set exactly one of claimName and hostPath",
        verdict=Verdict.INVALID,
    ),
    Rule(
        holds="!has(self.hostPath) || !('..' in self.hostPath.split('/'))",
        message="must not contain '..'; write the folder's path in full",
        at=".hostPath",
        verdict=Verdict.INVALID,
    ),
    Rule(
        holds="!has(self.subPath) || (!self.subPath.startsWith('/') && !('..' in self.subPath.split('/')))",
        message="must be a path inside the volume, without a leading '/' and without '..'",
        at=".subPath",
        verdict=Verdict.INVALID,
    ),
)

MODEL_SOURCE_RULES: Final = (
    Rule(
        holds="!(has(self.huggingFace) && has(self.volume))",
        message="set only one of huggingFace and volume",
        verdict=Verdict.INVALID,
    ),
)

ENVIRONMENT_RULES: Final = (
    Rule(
        holds=f"!(self.name in {sorted(OWNED_VARIABLES)}) || (self.name == 'PYTHONHASHSEED' && self.?value.orValue('') == '0')",
        message="only Tandem sets {name}; remove the variable",
        values={"name": "self.name"},
    ),
    Rule(
        holds="!(has(self.value) && has(self.valueFrom))",
        message="set only one of value and valueFrom",
        verdict=Verdict.INVALID,
    ),
)

RESOURCES_RULES: Final = tuple(
    Rule(
        holds=f"!has(self.{field}) || self.{field}.all(name, name in ['cpu', 'memory', 'ephemeral-storage'])",
        message="may have only cpu, memory and ephemeral-storage; use spec.accelerator for GPUs, EFA and huge pages, "
        "podTemplate for others",
        at=f".{field}",
    )
    for field in ("requests", "limits")
)

_OWN_KIND: Final = _kind("self.instanceType")
_HUGE: Final = "quantity(self.hugepages2Mi)"

ACCELERATOR_RULES: Final = (
    Rule(
        holds=f"self.?efa.?perPod.orValue(0) == 0 || {_EFAS}[{_OWN_KIND}] > 0",
        message="instance type {type} has no EFA; remove the field, or choose an instance type with EFA",
        at=".efa.perPod",
        values={"type": "self.instanceType"},
    ),
    Rule(
        holds=f"{_EFAS}[{_OWN_KIND}] == 0 || self.?efa.?perPod.orValue(0) <= {_EFAS}[{_OWN_KIND}]",
        message="{wanted} EFA devices are more than the {most} of a {type} node; ask for fewer, or remove the field",
        at=".efa.perPod",
        values={
            "wanted": "self.efa.perPod",
            "most": f"{_EFAS}[{_OWN_KIND}]",
            "type": "self.instanceType",
        },
    ),
    Rule(
        holds=f"self.instanceType != '{NO_ACCELERATOR}' || self.?gpusPerPod.orValue(0) == 0",
        message=f"instance type {NO_ACCELERATOR} has no GPUs; remove the field, or choose an instance type with GPUs",
        at=".gpusPerPod",
    ),
    Rule(
        holds=f"!has(self.hugepages2Mi) || ({_HUGE}.isInteger() && {_HUGE}.asInteger() > 0"
        f" && {_HUGE}.asInteger() % 2097152 == 0)",
        message="must be a multiple of 2Mi, for example 5120Mi; remove the field for none",
        at=".hugepages2Mi",
        verdict=Verdict.INVALID,
    ),
    Rule(
        holds=f"!has(self.hugepages2Mi) || !{_HUGE}.isInteger()"
        f" || {_HUGE}.asInteger() <= {_HUGEPAGES}[{_OWN_KIND}] * 1048576",
        message="a node of instance type {type} has at most {most}Mi of huge pages; ask for less, or remove the field",
        at=".hugepages2Mi",
        values={"type": "self.instanceType", "most": f"{_HUGEPAGES}[{_OWN_KIND}]"},
    ),
)

ONLY_WITH_PUSH: Final = (
    "disaggregateAboveTokens",
    "peersPerDecode",
    "deadline",
    "landingFraction",
    "minBlocks",
    "auth",
)
"""Fields of `transfer` that mean nothing to vLLM's NixlConnector."""

TRANSFER_RULES: Final = (
    *(
        Rule(
            holds=f"self.?protocol.orValue('{DEFAULT_PROTOCOL}') == 'Push' || !has(self.{field})",
            message="has no effect with spec.transfer.protocol: NixlPull; remove the field, or set that to Push",
            at=f".{field}",
        )
        for field in ONLY_WITH_PUSH
    ),
    Rule(
        holds="!has(self.deadline)"
        f" || (duration(self.deadline) > duration('0s') && duration(self.deadline) <= duration('{LONGEST_DEADLINE}'))",
        message=f"must be above 0s and at most {LONGEST_DEADLINE}, for example 20s",
        at=".deadline",
        verdict=Verdict.INVALID,
    ),
)

DRAIN_RULES: Final = (
    Rule(
        holds="!has(self.timeout)"
        f" || (duration(self.timeout) >= duration('{SHORTEST_DRAIN}') && duration(self.timeout) <= duration('{LONGEST_DRAIN}'))",
        message=f"must be from {SHORTEST_DRAIN} to {LONGEST_DRAIN}, for example 60s",
        at=".timeout",
        verdict=Verdict.INVALID,
    ),
)

VERIFICATION_RULES: Final = (
    Rule(
        holds="!has(self.period)"
        f" || (duration(self.period) >= duration('{SHORTEST_PERIOD}') && duration(self.period) <= duration('{LONGEST_PERIOD}'))",
        message=f"must be from {SHORTEST_PERIOD} to {LONGEST_PERIOD}, for example 10m",
        at=".period",
        verdict=Verdict.INVALID,
    ),
)

_TYPE: Final = "self.accelerator.instanceType"
_KIND: Final = _kind(_TYPE)
_EFA_PER_POD: Final = "self.accelerator.?efa.?perPod"
_HAS_CLAIMS: Final = "self.accelerator.?resourceClaims.orValue([]).size() > 0"
"""Devices are then what the claims give, which a rule cannot see."""
_PROTOCOL: Final = f"self.?transfer.?protocol.orValue('{DEFAULT_PROTOCOL}')"
_BACKEND: Final = "self.?transfer.?backend.orValue('')"


def _tensor(role: str) -> str:
    return f"self.{role}.?parallelism.?tensor.orValue(1)"


def _data(role: str) -> str:
    return f"self.{role}.?parallelism.?data.orValue(1)"


def _wanted_gpus(role: str) -> str:
    """Of a pod, whatever the instance type has."""
    return f"({_tensor(role)} * {_data(role)})"


def _gpus_of_a_pod(role: str) -> str:
    return f"({_GPUS}[{_KIND}] == 0 ? 0 : {_wanted_gpus(role)})"


def _share_of_efas(role: str) -> str:
    """As `Profile.efas_for`."""
    return f"({_GPUS}[{_KIND}] == 0 ? 0 : {_wanted_gpus(role)} * {_EFAS}[{_KIND}] / {_GPUS}[{_KIND}])"


def _role_rules(role: str) -> tuple[Rule, ...]:
    tensor, data, wanted = _tensor(role), _data(role), _wanted_gpus(role)
    return (
        Rule(
            holds=f"{_TYPE} == '{NO_ACCELERATOR}' || {tensor} <= {_GPUS}[{_KIND}]",
            message="{wanted} GPUs are more than the {most} of a {type} node; an engine cannot span nodes yet",
            at=f".{role}.parallelism.tensor",
            values={"wanted": tensor, "most": f"{_GPUS}[{_KIND}]", "type": _TYPE},
        ),
        Rule(
            holds=f"{_TYPE} == '{NO_ACCELERATOR}' || {tensor} > {_GPUS}[{_KIND}] || {wanted} <= {_GPUS}[{_KIND}]",
            message="{ranks} ranks of {tensor} GPUs are more than the {most} of a {type} node, and a pod cannot span nodes yet; "
            "ask for fewer ranks, and for more replicas",
            at=f".{role}.parallelism.data",
            values={"ranks": data, "tensor": tensor, "most": f"{_GPUS}[{_KIND}]", "type": _TYPE},
        ),
        Rule(
            holds=f"self.{role}.?parallelism.?pipeline.orValue(1) == 1",
            message="pipeline parallelism is not supported yet; raise tensor instead, and remove the field",
            at=f".{role}.parallelism.pipeline",
        ),
        Rule(
            holds=f"{_PROTOCOL} != 'NixlPull' || {data} == 1",
            message="{ranks} data-parallel ranks need spec.transfer.protocol: Push; set that, or remove the field and ask for "
            "more replicas",
            at=f".{role}.parallelism.data",
            values={"ranks": data},
        ),
        Rule(
            holds=f"{_TYPE} == '{NO_ACCELERATOR}' || self.accelerator.?gpusPerPod.orValue({wanted}) == {wanted}",
            message=f"{{given}} GPUs do not match spec.{role}.parallelism, whose tensor x data is {{wanted}}; "
            "make them equal, or remove the field",
            at=".accelerator.gpusPerPod",
            values={"given": "self.accelerator.gpusPerPod", "wanted": wanted},
        ),
        Rule(
            holds=f"{_BACKEND} == 'UCX' || {_HAS_CLAIMS} || {_EFAS}[{_KIND}] == 0 || {_EFA_PER_POD}.hasValue()"
            f" || {_share_of_efas(role)} > 0",
            message="{wanted} of the {gpus} GPUs of a {type} node have no whole EFA device of its {efas}; raise the "
            "value, or set spec.accelerator.efa.perPod, or set spec.transfer.backend to UCX",
            at=f".{role}.parallelism.tensor",
            values={
                "wanted": wanted,
                "gpus": f"{_GPUS}[{_KIND}]",
                "efas": f"{_EFAS}[{_KIND}]",
                "type": _TYPE,
            },
        ),
        *(
            Rule(
                holds=f"{_PROTOCOL} != 'NixlPull' || self.{role}.?{field.replace('.', '.?')}.orValue(0) <= {MAX_PEERS}",
                message=f"{{wanted}} engines are more than {MAX_PEERS}, which is all that an engine can address with "
                "spec.transfer.protocol: NixlPull; ask for fewer, or set that to Push",
                at=f".{role}.{field}",
                values={"wanted": f"self.{role}.{field}"},
            )
            for field in ("replicas", "autoscaling.minReplicas", "autoscaling.maxReplicas")
        ),
    )


SPEC_RULES: Final = (
    Rule(
        holds=f"{_PROTOCOL} != 'Push' || {_tensor('prefill')} == {_tensor('decode')}",
        message="{decode} and spec.prefill.parallelism.tensor, which is {prefill}: Push needs equal ones; "
        "make them equal, or set spec.transfer.protocol: NixlPull",
        at=".decode.parallelism.tensor",
        values={"decode": _tensor("decode"), "prefill": _tensor("prefill")},
    ),
    Rule(
        holds=f"{_PROTOCOL} != 'NixlPull' || self.?frontDoor.?enabled.orValue(true)",
        message="spec.transfer.protocol: NixlPull needs the front door, which runs its two legs; remove the field, "
        "or set that to Push",
        at=".frontDoor.enabled",
    ),
    Rule(
        holds=f"{_PROTOCOL} != 'NixlPull' || {_tensor('prefill')} % {_tensor('decode')} == 0"
        f" || {_tensor('decode')} % {_tensor('prefill')} == 0",
        message="{decode} and spec.prefill.parallelism.tensor, which is {prefill}: one must be a multiple of the other",
        at=".decode.parallelism.tensor",
        values={"decode": _tensor("decode"), "prefill": _tensor("prefill")},
    ),
    Rule(
        holds=f"{_PROTOCOL} != 'NixlPull' || !self.?scaling.?drain.hasValue()",
        message="has no effect with spec.transfer.protocol: NixlPull; remove the field, or set that to Push",
        at=".scaling.drain",
    ),
    *_role_rules("prefill"),
    *_role_rules("decode"),
    Rule(
        holds=f"self.?transfer.?peersPerDecode.orValue(1) * {_data('prefill')} <= {MAX_PEERS}",
        message=f"{{peers}} prefill pods of {{ranks}} data-parallel ranks are more than the {MAX_PEERS} engines that one can "
        "address; ask for fewer",
        at=".transfer.peersPerDecode",
        values={"peers": "self.transfer.peersPerDecode", "ranks": _data("prefill")},
    ),
    Rule(
        holds=f"{_BACKEND} != 'UCX' || {_EFA_PER_POD}.orValue(0) == 0",
        message="UCX does not use EFA devices; use LIBFABRIC, or remove spec.accelerator.efa.perPod",
        at=".transfer.backend",
    ),
    Rule(
        holds=f"{_BACKEND} != 'LIBFABRIC' || {_HAS_CLAIMS} || ({_EFAS}[{_KIND}] > 0 && {_EFA_PER_POD}.orValue(1) > 0)",
        message="LIBFABRIC needs EFA devices; use UCX, or an instance type with EFA and spec.accelerator.efa.perPod "
        "above 0 or absent",
        at=".transfer.backend",
    ),
    *scaling_rules(_gpus_of_a_pod("prefill"), _gpus_of_a_pod("decode")),
)
