# SPDX-License-Identifier: Apache-2.0
"""How it is written down what the API server refuses: a wrong change to a valid resource, its right neighbour, the words.

A change is merged into `BASE`: objects key by key, anything else replaced.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Change = Mapping[str, Any]

BASE: Final[dict[str, Any]] = {
    "apiVersion": "tandem.dev/v1alpha1",
    "kind": "DisaggregatedInference",
    "metadata": {"name": "crd-rules"},
    "spec": {
        "model": {"name": "Qwen/Qwen3-32B"},
        "engine": {"image": "vllm/vllm-openai:v0.32.0"},
        "accelerator": {"instanceType": "p5en.48xlarge"},
        "prefill": {"parallelism": {"tensor": 8}},
        "decode": {"parallelism": {"tensor": 8}},
    },
}


def resource(change: Change) -> dict[str, Any]:
    """`BASE` with `change` merged into it."""
    return _merged(BASE, change)


def _merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in change.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = _merged(result[key], value) if both else value
    return result


@dataclass(frozen=True)
class Refusal:
    """One thing that the API server must not take."""

    name: str
    field: str
    """The field that the refusal blames."""
    message: str
    wrong: Change
    right: Change
    """As near to `wrong` as a valid resource can be."""


def spec(**parts: Change) -> Change:
    """A change of these parts of `spec`."""
    return {"spec": parts}


def tensor(prefill: int, decode: int) -> dict[str, Change]:
    """The parts of `spec` with these tensor-parallel sizes."""
    return {"prefill": {"parallelism": {"tensor": prefill}}, "decode": {"parallelism": {"tensor": decode}}}


def replicas(prefill: int, decode: int) -> dict[str, Change]:
    """The parts of `spec` with these numbers of engines."""
    return {"prefill": {"replicas": prefill}, "decode": {"replicas": decode}}


def scaling(**fields: object) -> Change:
    """A change of `spec.scaling`."""
    return spec(scaling=fields)


def volume(**fields: str) -> Change:
    """A change of the volume that the model is on."""
    return spec(model={"source": {"volume": fields}})


def accelerator(**fields: object) -> Change:
    """A change of `spec.accelerator`."""
    return spec(accelerator=fields)


CPU: Final = {"instanceType": "none"}
PULL: Final = {"protocol": "NixlPull"}
