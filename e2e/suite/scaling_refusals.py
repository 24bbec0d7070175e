# SPDX-License-Identifier: Apache-2.0
"""What the rules of the definition refuse of numbers of engines, in their own words."""

from typing import Final

from e2e.suite.refusals import CPU, Refusal, replicas, scaling, spec

SCALING_REFUSALS: Final = (
    *(
        Refusal(
            f"more engines at least than at most in spec.{role}",
            f"spec.{role}.autoscaling.minReplicas",
            "3 is above maxReplicas, which is 2; lower it, or raise that",
            spec(**{role: {"autoscaling": {"minReplicas": 3, "maxReplicas": 2}}}),
            spec(**{role: {"autoscaling": {"minReplicas": 2, "maxReplicas": 2}}}),
        )
        for role in ("prefill", "decode")
    ),
    Refusal(
        "a ratio that nothing can be within",
        "spec.scaling.ratio.min",
        "1/3 is above max, which is 3/10; lower it, or raise that",
        scaling(ratio={"min": "1/3", "max": "3/10"}),
        scaling(ratio={"min": "1/3", "max": "2/6"}),
    ),
    *(
        Refusal(
            f"{why} than the ratio allows",
            "spec.scaling.ratio.min",
            f"at most {prefill} prefill for at least {decode} decode engines are always below 1/2; lower it, raise replicas or "
            "autoscaling.maxReplicas of spec.prefill, or lower replicas or autoscaling.minReplicas of spec.decode",
            spec(scaling={"ratio": {"min": "1/2"}}, **wrong),
            spec(scaling={"ratio": {"min": "1/2"}}, **right),
        )
        for why, prefill, decode, wrong, right in (
            ("fewer prefill engines", 1, 3, replicas(1, 3), replicas(1, 2)),
            ("no prefill engine", 0, 1, replicas(0, 1), replicas(0, 0)),
            (
                "fewer prefill engines at most",
                1,
                3,
                {"prefill": {"autoscaling": {"maxReplicas": 1}}, "decode": {"replicas": 3}},
                {"prefill": {"autoscaling": {"maxReplicas": 2}}, "decode": {"replicas": 3}},
            ),
            (
                "more decode engines at least",
                1,
                3,
                {"prefill": {"replicas": 1}, "decode": {"autoscaling": {"minReplicas": 3}}},
                {"prefill": {"replicas": 1}, "decode": {"autoscaling": {"minReplicas": 2}, "replicas": 9}},
            ),
        )
    ),
    *(
        Refusal(
            f"{why} than the ratio allows",
            "spec.scaling.ratio.max",
            f"at least {prefill} prefill for at most {decode} decode engines are always above 3/2; raise it, lower replicas or "
            "autoscaling.minReplicas of spec.prefill, or raise replicas or autoscaling.maxReplicas of spec.decode",
            spec(scaling={"ratio": {"max": "3/2"}}, **wrong),
            spec(scaling={"ratio": {"max": "3/2"}}, **right),
        )
        for why, prefill, decode, wrong, right in (
            ("more prefill engines", 4, 2, replicas(4, 2), replicas(3, 2)),
            (
                "more prefill engines at least",
                4,
                2,
                {"prefill": {"autoscaling": {"minReplicas": 4}}, "decode": {"replicas": 2}},
                {"prefill": {"autoscaling": {}}, "decode": {"replicas": 2}},
            ),
        )
    ),
    *(
        Refusal(
            f"{why} than the budget has GPUs for",
            "spec.scaling.gpuBudget",
            f"24 GPUs are fewer than the 32 of at least {prefill} prefill and {decode} decode engines; raise it, or lower replicas, "
            "autoscaling.minReplicas or parallelism of spec.prefill or spec.decode",
            spec(scaling={"gpuBudget": 24}, **wrong),
            spec(scaling={"gpuBudget": 24}, **right),
        )
        for why, prefill, decode, wrong, right in (
            ("more engines", 1, 3, replicas(1, 3), replicas(1, 2)),
            (
                "more engines at least",
                2,
                2,
                {"prefill": {"autoscaling": {"minReplicas": 2}}, "decode": {"replicas": 2}},
                {"prefill": {"autoscaling": {"minReplicas": 1}, "replicas": 9}, "decode": {"replicas": 2}},
            ),
            (
                "more GPUs for each engine",
                2,
                2,
                {"prefill": {"replicas": 2}, "decode": {"replicas": 2}},
                {"accelerator": CPU, "prefill": {"replicas": 2}, "decode": {"replicas": 2}},
            ),
        )
    ),
)
"""Part of the refusals by the rules."""
