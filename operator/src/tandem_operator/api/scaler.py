# SPDX-License-Identifier: Apache-2.0
"""The second resource: what an autoscaler turns.

A CustomResourceDefinition has one scale subresource, and a DisaggregatedInference has two numbers to scale. So each role whose
number the spec leaves open gets a resource of its own.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from tandem_operator.api.base import ApiModel
from tandem_operator.api.names import API_VERSION, SCALER_KIND
from tandem_operator.api.resource import Metadata
from tandem_operator.api.scaling import Replicas
from tandem_operator.api.status import Condition
from tandem_operator.api.values import INT32

SCALE_PATHS: Final = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}
"""Where the scale subresource finds its fields."""


class ScalerSpec(ApiModel):
    """What an autoscaler asks for."""

    replicas: Replicas
    """Engines that the role is asked to have. Tandem sets it once, when it makes the scaler, and never again."""


class ScalerStatus(ApiModel):
    """What there is, for the autoscaler."""

    observed_generation: Annotated[int, Field(json_schema_extra={"format": "int64"})] = 0
    """`metadata.generation` of the scaler that the status was computed from."""
    replicas: Annotated[int, Field(json_schema_extra=INT32)] = 0
    """Engines that exist and aren't ending."""
    ready_replicas: Annotated[int, Field(json_schema_extra=INT32)] = 0
    """Engines that take requests."""
    selector: Annotated[str, Field(max_length=1024)] = ""
    """Label selector of the role's pods, in the form that the scale subresource wants."""
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=8,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()
    """`ScalingLimited`: whether the role gets another number than was asked for, and why."""


class DisaggregatedInferenceScaler(ApiModel):
    """How many engines one role of a DisaggregatedInference is asked to have, for HPA, KEDA and `kubectl scale`.

    Made by Tandem, and deleted when the DisaggregatedInference fixes the number itself.
    """

    api_version: Literal["tandem.dev/v1alpha1"] = API_VERSION
    kind: Literal["DisaggregatedInferenceScaler"] = SCALER_KIND
    metadata: Metadata
    spec: ScalerSpec
    """What an autoscaler asks for."""
    status: ScalerStatus | None = None
    """What there is. Written by Tandem only."""
