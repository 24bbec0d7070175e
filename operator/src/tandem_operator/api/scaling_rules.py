# SPDX-License-Identifier: Apache-2.0
"""The rules on numbers of engines, which the API server checks.

They refuse what can never hold, whatever the scalers ask for. What a scaler asks for at some time is no rule's business:
the operator gives what it can, and says why it is another number.
"""

from typing import Final

from tandem_operator.api.rule import Rule, Verdict

MAX_REPLICAS: Final = 1000

AUTOSCALING_RULES: Final = (
    Rule(
        holds="!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
        message="{min} is above maxReplicas, which is {max}; lower it, or raise that",
        at=".minReplicas",
        values={"min": "self.minReplicas", "max": "self.maxReplicas"},
        verdict=Verdict.INVALID,
    ),
)


def _engines(fraction: str, place: int) -> str:
    """Prefill (place 0) or decode engines (place 1) of a `PrefillPerDecode`."""
    return f"int({fraction}.split('/')[{place}])"


RATIO_RULES: Final = (
    Rule(
        holds="!has(self.min) || !has(self.max)"
        f" || {_engines('self.min', 0)} * {_engines('self.max', 1)} <= {_engines('self.max', 0)} * {_engines('self.min', 1)}",
        message="{min} is above max, which is {max}; lower it, or raise that",
        at=".min",
        values={"min": "self.min", "max": "self.max"},
        verdict=Verdict.INVALID,
    ),
)


def _least(role: str) -> str:
    return f"(has(self.{role}.autoscaling) ? self.{role}.autoscaling.?minReplicas.orValue(0) : self.{role}.?replicas.orValue(0))"


def _most(role: str) -> str:
    most = MAX_REPLICAS
    return (
        f"(has(self.{role}.autoscaling) ? self.{role}.autoscaling.?maxReplicas.orValue({most})"
        f" : self.{role}.?replicas.orValue({most}))"
    )


_MIN: Final = "self.scaling.ratio.min"
_MAX: Final = "self.scaling.ratio.max"


def scaling_rules(prefill_gpus: str, decode_gpus: str) -> tuple[Rule, ...]:
    """The rules of `spec` as a whole. The arguments are CEL expressions for the GPUs of one pod."""
    total = f"{_least('prefill')} * {prefill_gpus} + {_least('decode')} * {decode_gpus}"
    return (
        Rule(
            holds="!self.?scaling.?ratio.?min.hasValue()"
            f" || {_most('prefill')} * {_engines(_MIN, 1)} >= {_engines(_MIN, 0)} * {_least('decode')}",
            message="at most {prefill} prefill for at least {decode} decode engines are always below {ratio}; lower it, raise "
            "replicas or autoscaling.maxReplicas of spec.prefill, or lower replicas or autoscaling.minReplicas of spec.decode",
            at=".scaling.ratio.min",
            values={"prefill": _most("prefill"), "decode": _least("decode"), "ratio": _MIN},
        ),
        Rule(
            holds="!self.?scaling.?ratio.?max.hasValue()"
            f" || {_least('prefill')} * {_engines(_MAX, 1)} <= {_engines(_MAX, 0)} * {_most('decode')}",
            message="at least {prefill} prefill for at most {decode} decode engines are always above {ratio}; raise it, lower "
            "replicas or autoscaling.minReplicas of spec.prefill, or raise replicas or autoscaling.maxReplicas of spec.decode",
            at=".scaling.ratio.max",
            values={"prefill": _least("prefill"), "decode": _most("decode"), "ratio": _MAX},
        ),
        Rule(
            holds=f"!self.?scaling.?gpuBudget.hasValue() || {total} <= self.scaling.gpuBudget",
            message="{budget} GPUs are fewer than the {total} of at least {prefill} prefill and {decode} decode engines; raise "
            "it, or lower replicas, autoscaling.minReplicas or parallelism of spec.prefill or spec.decode",
            at=".scaling.gpuBudget",
            values={
                "budget": "self.scaling.gpuBudget",
                "total": total,
                "prefill": _least("prefill"),
                "decode": _least("decode"),
            },
        ),
    )
