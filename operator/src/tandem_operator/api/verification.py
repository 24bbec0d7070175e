# SPDX-License-Identifier: Apache-2.0
"""`spec.verification` of a DisaggregatedInference: the proof that KV moves."""

from tandem_operator.api.base import ApiModel
from tandem_operator.api.rule import rules
from tandem_operator.api.rules import VERIFICATION_RULES
from tandem_operator.api.values import Duration


class Verification(ApiModel, json_schema_extra=rules(VERIFICATION_RULES)):
    """Short conversations that the operator holds with decode engines, to see that KV moves between the pools and is right."""

    enabled: bool | None = None
    """Whether they are held; default true. Without them `KVTransferVerified` and `FabricActive` are Unknown. Only with `Push`."""
    period: Duration | None = None
    """How long after one conversation a decode engine whose pairs were all shown gets the next; default `10m`."""
