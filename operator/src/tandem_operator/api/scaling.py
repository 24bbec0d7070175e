# SPDX-License-Identifier: Apache-2.0
"""`spec.scaling` of a DisaggregatedInference."""

from tandem_operator.api.base import ApiModel
from tandem_operator.api.rule import rules
from tandem_operator.api.rules import DRAIN_RULES
from tandem_operator.api.values import Duration


class Drain(ApiModel, json_schema_extra=rules(DRAIN_RULES)):
    """What an engine does before it ends, when its pod is deleted; only with `Push`."""

    timeout: Duration | None = None
    """How long it may take to finish its requests and hand over what it holds, before it is sent SIGTERM.

    Default `60s`, or half of the role's `podTemplate.spec.terminationGracePeriodSeconds`. A change restarts the engines."""
    migrate: bool | None = None
    """Whether it hands over its KV cache to another engine of its role; default true."""


class Scaling(ApiModel):
    """How engines come and go."""

    drain: Drain | None = None
    """What an engine does before it ends."""
