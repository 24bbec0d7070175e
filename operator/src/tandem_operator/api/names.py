# SPDX-License-Identifier: Apache-2.0
"""Names that users, manifests and other programs see: the API's identity, labels, annotations, children's names."""

from typing import Final

from tandem_connector.contract.types import Role

GROUP: Final = "tandem.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = "tandem.dev/v1alpha1"
KIND: Final = "DisaggregatedInference"
PLURAL: Final = "disaggregatedinferences"
SINGULAR: Final = "disaggregatedinference"
SHORT_NAME: Final = "pdi"
CATEGORY: Final = "tandem"

SCALER_KIND: Final = "DisaggregatedInferenceScaler"
SCALER_PLURAL: Final = "disaggregatedinferencescalers"
SCALER_SINGULAR: Final = "disaggregatedinferencescaler"
SCALER_SHORT_NAME: Final = "pdscaler"

FIELD_MANAGER: Final = "tandem"
"""Owner of every field that the operator applies."""

RESOURCE_LABEL: Final = "tandem.dev/resource"
"""On every child: the name of its DisaggregatedInference."""
ROLE_LABEL: Final = "tandem.dev/role"
"""On pods and sets: `prefill`, `decode` or `front-door`."""
ROUTABLE_LABEL: Final = "tandem.dev/routable"
"""On engine pods: `true` while the front door may send turns to them; absent otherwise."""
REVISION_LABEL: Final = "tandem.dev/revision"
"""On engine pods, their sets and the ControllerRevision that keeps them: the revision's name. Pairs are of one revision."""
KIN_LABEL: Final = "tandem.dev/kin"
"""On engine pods that exchange: engines of one role with the same value can use each other's blocks, also across revisions."""
GIVEN_ANNOTATION: Final = "tandem.dev/given"
"""On a revision's ControllerRevision: hash of the part of the spec that it was made from."""
COMPLETE_ANNOTATION: Final = "tandem.dev/was-complete"
"""On a revision's ControllerRevision: `true` once all of its engines were ready."""
GIVEN_UP_ANNOTATION: Final = "tandem.dev/given-up"
"""On a revision's ControllerRevision: why it was rolled back. Without it, it is tried again."""
BESIDE_ANNOTATION: Final = "tandem.dev/beside"
"""On a revision's sets: those with the same value may take turns beside each other."""
TENSOR_LABEL: Final = "tandem.dev/tensor-parallel"
"""On engine pods: tensor-parallel size that the pod was started with."""
DATA_LABEL: Final = "tandem.dev/data-parallel"
"""On engine pods: how many data-parallel ranks the pod was started with; absent where it is one."""
ENGINE_LABEL: Final = "tandem.dev/engine"
"""On the engine pods of both roles, same value for one resource: the one label that zone affinity refers to."""
PEERS_ANNOTATION: Final = "tandem.dev/peers"
"""On engine pods: the peer table (see tandem_connector.contract.peers)."""
FORMER_PEERS_ANNOTATION: Final = "tandem.dev/former-peers"
"""On engine pods, the operator's own: `UID@address` of pods that were in the peer table, aren't any more, and exist, separated by
commas."""
TOLD_ANNOTATION: Final = "tandem.dev/told-at"
"""On engine pods, the operator's own: when the peer table was last changed."""
TELL_AGAIN_ANNOTATION: Final = "tandem.dev/tell-again-at"
"""On engine pods, the operator's own, and only for some seconds: when the pod is to be written once more, for a kubelet that may have
missed the last change of the peer table. That write takes it away."""
VERIFICATION_ANNOTATION: Final = "tandem.dev/verification"
"""On engine pods, the operator's own: over what the engine exchanges, and what conversations have shown of its pairs."""
VERIFY_ANNOTATION: Final = "tandem.dev/verify-requested-at"
"""On a DisaggregatedInference, by whoever may edit it: a new value asks for conversations with all of its engines now."""
CONFIG_HASH_ANNOTATION: Final = "tandem.dev/config-hash"
"""On pod templates: hash of the rendered launch configuration, so that pods follow its changes."""

INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
NETWORK_LAYER_LABEL_PREFIX: Final = "topology.k8s.aws/network-node-layer-"
"""Followed by 1 (top of the network) to 3 or 4 (the node's own switch), set by the AWS cloud provider."""

FRONT_DOOR_ROLE: Final = "front-door"
FRONT_DOOR_PORT: Final = 8000
FRONT_DOOR_METRICS_PORT: Final = 29000

MAX_NAME_LENGTH: Final = 63 - len("-prefill") - 11
"""A StatefulSet's pods carry the label `controller-revision-hash: <set>-<up to 10 characters>`, which may have 63 characters."""


def role_name(resource: str, role: Role) -> str:
    """Name of the role's first StatefulSet, headless Service and scaler, and beginning of its launch ConfigMap's."""
    return f"{resource}-{role}"


def engines_policy_name(resource: str) -> str:
    """Name of the engines' NetworkPolicy."""
    return f"{resource}-engines"


def set_name(resource: str, role: Role, revision: str) -> str:
    """Name of the role's StatefulSet of a revision that another one was before, as long as `role_name` for a prefill engine's."""
    return f"{resource}-{str(role)[0]}-{revision[:5]}"


def revision_name(resource: str, revision: str) -> str:
    """Name of a revision's ControllerRevision."""
    return f"{resource}-{revision}"


def exchange_secret_name(resource: str, incarnation: str) -> str:
    """Name of the Secret with the key that the operator makes; `incarnation` tells resources of one name apart."""
    return f"{resource}-exchange-{incarnation}"


def front_door_name(resource: str) -> str:
    """Name of the front door's Deployment, Service, ServiceAccount, Role and RoleBinding."""
    return resource


def routable_name(resource: str) -> str:
    """Name of the headless Service of the decode engines that take turns, which is there for gateways of the user's."""
    return f"{resource}-routable"
