# SPDX-License-Identifier: Apache-2.0
"""Kinds of values that several models use, each with the bounds that the API server checks.

Everything has a bound: the API server adds up what rules could cost for the largest value that the schema allows.
"""

import re
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, WithJsonSchema

from tandem_operator.api.rule import Rule, Verdict, rules

Name = Annotated[
    str,
    Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
]
"""Of a Kubernetes object."""
DataKey = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
"""In a Secret's data."""
DeviceName = Annotated[
    str,
    Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,60}[A-Za-z0-9])?$"),
]
"""Of a device plugin's resource, as `nvidia.com/gpu`."""
Image = Annotated[str, Field(min_length=1, max_length=1024, pattern="^[!-~]+$")]
ShortText = Annotated[str, Field(min_length=1, max_length=1024)]
LabelValue = Annotated[str, Field(max_length=63, pattern=r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")]
Labels = Annotated[dict[str, LabelValue], Field(max_length=32)]
QUANTITY_PATTERN: Final = r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei)?$"
Quantity = Annotated[str, Field(max_length=32, pattern=QUANTITY_PATTERN)]
DURATION_PATTERN: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
Duration = Annotated[str, Field(max_length=32, pattern=DURATION_PATTERN)]
"""As Go writes it, as `20s` or `1m30s`."""
Percentage = Annotated[str, Field(max_length=4, pattern=r"^([0-9]|[1-9][0-9]|100)%$")]
NumberOrQuantity = Annotated[
    Quantity,
    BeforeValidator(lambda value: str(value) if isinstance(value, int) else value),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY_PATTERN,
            "maxLength": 32,
        }
    ),
]
"""As in a pod, where `cpu: 8` is as good as `cpu: "8"`."""
Arguments = Annotated[
    tuple[Annotated[str, Field(max_length=2048)], ...],
    Field(max_length=64, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
]
OpenObject = Annotated[dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})]
INT32: Final = {"format": "int32"}
ResourceClaim = Annotated[
    dict[str, Any],
    Field(
        json_schema_extra={
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {
                "name": {
                    "description": "Name of the claim inside the pod; the engine's container uses every claim.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 63,
                },
                "resourceClaimName": {
                    "description": "A ResourceClaim, whose devices all engines then share.",
                    "type": "string",
                    "maxLength": 253,
                },
                "resourceClaimTemplateName": {
                    "description": "A ResourceClaimTemplate, from which each engine gets a claim of its own.",
                    "type": "string",
                    "maxLength": 253,
                },
            },
            "required": ["name"],
            **rules(
                [
                    Rule(
                        holds="has(self.resourceClaimName) != has(self.resourceClaimTemplateName)",
                        message="set exactly one of resourceClaimName and resourceClaimTemplateName",
                        verdict=Verdict.INVALID,
                    )
                ]
            ),
        }
    ),
]
"""An entry of a pod's `spec.resourceClaims`."""

_UNITS: Final = {
    **{prefix: Decimal(1000) ** power for power, prefix in enumerate(("", "k", "M", "G", "T", "P", "E"))},
    **{f"{prefix}i": Decimal(1024) ** power for power, prefix in enumerate(("K", "M", "G", "T", "P", "E"), 1)},
    "m": Decimal(1) / 1000,
}
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def amount_of(quantity: str | int) -> Decimal:
    """How much a quantity is, 0 for what isn't one. The API server also writes exponents, as `1e3`, for those who do."""
    number, unit = re.fullmatch(r"(.*?)([A-Za-z]*)", str(quantity), re.DOTALL).groups()  # type: ignore[union-attr]
    try:
        return Decimal(number) * _UNITS[unit]
    except (InvalidOperation, KeyError):
        return Decimal(0)


def seconds_of(duration: str) -> float:
    """What a `Duration` lasts."""
    parts = re.findall(r"([0-9.]+)(ms|s|m|h)", duration)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def percent_of(percentage: str) -> float:
    """A `Percentage` as part of 1."""
    return int(percentage.removesuffix("%")) / 100
