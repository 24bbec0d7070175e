# SPDX-License-Identifier: Apache-2.0
"""The whole resource."""

from collections.abc import Mapping
from typing import Literal

from tandem_operator.api.base import ApiModel
from tandem_operator.api.names import API_VERSION, KIND
from tandem_operator.api.rule import rules
from tandem_operator.api.rules import METADATA_RULES
from tandem_operator.api.spec import Spec
from tandem_operator.api.status import Status


class Metadata(ApiModel):
    """The part of ObjectMeta that the operator reads."""

    name: str
    namespace: str
    uid: str
    generation: int = 1
    deletion_timestamp: str | None = None
    annotations: Mapping[str, str] | None = None


class DisaggregatedInference(ApiModel, json_schema_extra=rules(METADATA_RULES)):
    """One model served by prefill and decode pools."""

    api_version: Literal["tandem.dev/v1alpha1"] = API_VERSION
    kind: Literal["DisaggregatedInference"] = KIND
    metadata: Metadata
    spec: Spec
    """What to run."""
    status: Status | None = None
    """What the operator saw and did. Written by the operator only."""
