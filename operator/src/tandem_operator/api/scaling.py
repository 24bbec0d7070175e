# SPDX-License-Identifier: Apache-2.0
"""How many engines there may be and how they end: `spec.scaling` of a DisaggregatedInference, and `autoscaling` of each role."""

from typing import Annotated, Final

from pydantic import Field

from tandem_operator.api.base import ApiModel
from tandem_operator.api.rule import rules
from tandem_operator.api.rules import DRAIN_RULES
from tandem_operator.api.scaling_rules import AUTOSCALING_RULES, MAX_REPLICAS, RATIO_RULES
from tandem_operator.api.values import INT32, Duration

MAX_GPUS: Final = 2 * MAX_REPLICAS * 16
"""Of both roles with as many engines, each on as many GPUs, as there may be."""

Replicas = Annotated[int, Field(ge=0, le=MAX_REPLICAS, json_schema_extra=INT32)]
PrefillPerDecode = Annotated[str, Field(max_length=5, pattern=r"^[1-9][0-9]?/[1-9][0-9]?$")]
"""Prefill engines, a slash, decode engines, as `1/4`. A fraction, since decimals can't say 1/3."""


class Autoscaling(ApiModel, json_schema_extra=rules(AUTOSCALING_RULES)):
    """Leaves the number of engines to the role's DisaggregatedInferenceScaler, between two bounds."""

    min_replicas: Replicas | None = None
    """Fewest engines, also when the scaler asks for fewer; default 0."""
    max_replicas: Replicas | None = None
    """Most engines, also when the scaler asks for more; default 1000."""


class Ratio(ApiModel, json_schema_extra=rules(RATIO_RULES)):
    """Bounds of the number of prefill engines over the number of decode engines."""

    min: PrefillPerDecode | None = None
    """Fewest prefill engines, as `1/4`: one for every four decode engines. Default: no bound."""
    max: PrefillPerDecode | None = None
    """Most prefill engines, as `1/1`: one for every decode engine. Default: no bound."""


class Drain(ApiModel, json_schema_extra=rules(DRAIN_RULES)):
    """What an engine does before it ends, when its pod is deleted; only with `Push`."""

    timeout: Duration | None = None
    """How long it may take to finish its requests and hand over what it holds, before it is sent SIGTERM.

    Default `60s`, or half of the role's `podTemplate.spec.terminationGracePeriodSeconds`. A change needs new engines."""
    migrate: bool | None = None
    """Whether it hands over its KV cache to another engine of its role; default true."""


class Scaling(ApiModel):
    """What both roles' numbers of engines keep to, whoever asks for them, and how engines end."""

    ratio: Ratio | None = None
    """Of prefill to decode engines. The role that has too few for it gets more; where it may not, the other gets fewer."""
    gpu_budget: Annotated[int, Field(ge=1, le=MAX_GPUS, json_schema_extra=INT32)] | None = None
    """Most GPUs of all engines, those that are ending included; default: no bound."""
    drain: Drain | None = None
    """What an engine does before it ends."""
