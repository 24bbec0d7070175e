# SPDX-License-Identifier: Apache-2.0
"""`spec.networkPolicy` of a DisaggregatedInference."""

from typing import Annotated, Final

from pydantic import Field

from tandem_operator.api.base import ApiModel
from tandem_operator.api.rule import Rule, Verdict, rules
from tandem_operator.api.values import OpenObject

PEER_RULES: Final = (
    Rule(
        holds="has(self.podSelector) || has(self.namespaceSelector) || has(self.ipBlock)",
        message="says nobody; set podSelector, namespaceSelector or ipBlock",
        verdict=Verdict.INVALID,
    ),
    Rule(
        holds="!has(self.ipBlock) || !(has(self.podSelector) || has(self.namespaceSelector))",
        message="must be alone; put the selectors into an entry of their own",
        at=".ipBlock",
    ),
)


class NetworkPeer(ApiModel, json_schema_extra=rules(PEER_RULES)):
    """Who may connect, as in a NetworkPolicy's `ingress[].from`."""

    pod_selector: OpenObject | None = None
    """Pods with these labels, in the resource's namespace unless `namespaceSelector` says where."""
    namespace_selector: OpenObject | None = None
    """Namespaces with these labels; `{}` is all of them."""
    ip_block: OpenObject | None = None
    """Addresses outside of pods, as `{cidr: 10.0.0.0/8}`."""


class EngineNetwork(ApiModel):
    """Who may connect to engines, where the cluster's network enforces NetworkPolicies."""

    enabled: bool | None = None
    """Whether the operator makes a NetworkPolicy for the engines; default true. Without one everybody may connect to them."""
    allow_http_from: Annotated[
        tuple[NetworkPeer, ...], Field(max_length=32, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = ()
    """Who may use the engines' HTTP port, beside the front door, the operator and the other engines: your monitoring, for example.

    Without a front door, and with nobody named here, everybody may: the gateway is yours."""
