# SPDX-License-Identifier: Apache-2.0
"""What an EC2 instance type has, per node.

Sources: Karpenter's generated instance-type reference (GPUs, EFA devices, vCPUs, memory) and the EFA installer's formula
for huge pages (110 MiB x vCPUs x 2, as 2 MiB pages); the value for p5.48xlarge was seen on nodes, the others follow from
the formula and were not observed.
"""

from dataclasses import dataclass, replace
from typing import Final

NO_ACCELERATOR: Final = "none"
GPU_RESOURCE: Final = "nvidia.com/gpu"
EFA_RESOURCE: Final = "vpc.amazonaws.com/efa"
HYPERPOD_PREFIX: Final = "ml."
"""What SageMaker HyperPod calls an instance type begins with it, also in the label of its nodes."""


@dataclass(frozen=True)
class Profile:
    """One instance type's devices, per node."""

    instance_type: str
    gpus: int
    efas: int
    hugepages_mebibytes: int
    """Most that a node can offer as hugepages-2Mi."""

    def efas_for(self, gpus: int) -> int:
        """EFA devices of a pod with `gpus` GPUs: its share of the node's, rounded down (an EFA device is never shared)."""
        return gpus * self.efas // self.gpus if self.gpus else 0

    @property
    def has_efa(self) -> bool:
        """Whether KV can go over EFA here."""
        return self.efas > 0


def _hugepages(vcpus: int) -> int:
    return (110 * vcpus * 2 // 2 + 1) * 2


PROFILES: Final = {
    profile.instance_type: profile
    for profile in (
        Profile("p4d.24xlarge", gpus=8, efas=4, hugepages_mebibytes=_hugepages(96)),
        Profile("p4de.24xlarge", gpus=8, efas=4, hugepages_mebibytes=_hugepages(96)),
        Profile("p5.4xlarge", gpus=1, efas=1, hugepages_mebibytes=_hugepages(16)),
        Profile("p5.48xlarge", gpus=8, efas=32, hugepages_mebibytes=_hugepages(192)),
        Profile("p5e.48xlarge", gpus=8, efas=32, hugepages_mebibytes=_hugepages(192)),
        Profile("p5en.48xlarge", gpus=8, efas=16, hugepages_mebibytes=_hugepages(192)),
        Profile("p6-b200.48xlarge", gpus=8, efas=8, hugepages_mebibytes=_hugepages(192)),
        Profile("p6-b300.48xlarge", gpus=8, efas=16, hugepages_mebibytes=_hugepages(192)),
        Profile("g6e.48xlarge", gpus=8, efas=4, hugepages_mebibytes=_hugepages(192)),
        Profile("g7e.48xlarge", gpus=8, efas=4, hugepages_mebibytes=_hugepages(192)),
        Profile(NO_ACCELERATOR, gpus=0, efas=0, hugepages_mebibytes=0),
    )
}

INSTANCE_TYPES: Final = (
    *sorted(PROFILES),
    *(f"{HYPERPOD_PREFIX}{name}" for name in sorted(PROFILES) if name != NO_ACCELERATOR),
)
"""All that a resource may name."""


def profile_of(instance_type: str) -> Profile | None:
    """What a node of the type has; None for a type that isn't known. HyperPod's nodes have what EC2's of the type have."""
    if instance_type not in INSTANCE_TYPES:
        return None
    return replace(PROFILES[instance_type.removeprefix(HYPERPOD_PREFIX)], instance_type=instance_type)
