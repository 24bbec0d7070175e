# SPDX-License-Identifier: Apache-2.0
"""Why a role gets another number of engines than was asked for, and what to do about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from tandem_connector.contract.types import Role
from tandem_operator.api.names import role_name
from tandem_operator.api.status import Reason
from tandem_operator.plan.resolved import Resolved
from tandem_operator.plan.scaling import Grant, Limits


@dataclass(frozen=True)
class Limitation:
    """One bound that is in the way."""

    roles: frozenset[Role]
    """Whose number it is about."""
    reason: Reason
    message: str


def limitations(resolved: Resolved, granted: Grant, limits: Limits) -> tuple[Limitation, ...]:
    """What is in the way of what was asked for, worst first; empty when it is given."""
    return (
        *_unreachable(granted, limits),
        *_over_budget(granted, limits),
        *(each for role in Role for each in _out_of_ratio(role, granted, limits)),
        *(each for role in Role for each in _out_of_bounds(resolved, role, granted)),
    )


def _unreachable(granted: Grant, limits: Limits) -> Iterator[Limitation]:
    if limits.keeps_ratio(granted.given):
        return
    prefill, decode = granted.given
    bounds = [
        f"{name} {_text(bound)}" for name, bound in (("min", limits.ratio_min), ("max", limits.ratio_max)) if bound
    ]
    yield Limitation(
        frozenset(Role),
        Reason.RATIO_UNREACHABLE,
        f"{prefill} prefill and {decode} decode engines don't keep spec.scaling.ratio ({', '.join(bounds)}), as no numbers do that"
        " the other bounds allow; widen the ratio, raise spec.scaling.gpuBudget, or change the roles' replicas or autoscaling",
    )


def _over_budget(granted: Grant, limits: Limits) -> Iterator[Limitation]:
    roles = frozenset(role for role in Role if granted.given.of(role) != granted.balanced.of(role))
    if roles:
        given, wanted = granted.given, granted.balanced
        yield Limitation(
            roles,
            Reason.GPU_BUDGET,
            f"spec.scaling.gpuBudget is {limits.budget} GPUs, enough for {given.prefill} of {wanted.prefill} prefill and"
            f" {given.decode} of {wanted.decode} decode engines; raise it, or ask for fewer",
        )


def _out_of_ratio(role: Role, granted: Grant, limits: Limits) -> Iterator[Limitation]:
    wanted, given, others = granted.bounded.of(role), granted.balanced.of(role), granted.balanced.of(role.other)
    if given == wanted:
        return
    is_raised = given > wanted
    # More prefill or less decode brings the ratio above its lower bound; the other two bring it below its upper one.
    is_lower_bound = is_raised == (role is Role.PREFILL)
    bound = limits.ratio_min if is_lower_bound else limits.ratio_max
    field, way = ("min", "lower") if is_lower_bound else ("max", "raise")
    remedy = f"ask for fewer {role.other} engines" if is_raised else f"allow more {role.other} engines"
    yield Limitation(
        frozenset({role}),
        Reason.RATIO_BOUNDS,
        f"{role} gets {given} engines for {wanted}, as spec.scaling.ratio.{field} is {_text(bound)} and {role.other} gets"
        f" {others}; {remedy}, or {way} it",
    )


def _out_of_bounds(resolved: Resolved, role: Role, granted: Grant) -> Iterator[Limitation]:
    asked, given = granted.asked.of(role), granted.bounded.of(role)
    if asked == given:
        return
    side, field, remedy = ("above", "max", "raise") if asked > given else ("below", "min", "lower")
    yield Limitation(
        frozenset({role}),
        Reason.REPLICA_BOUNDS,
        f"scaler {role_name(resolved.name, role)} asks for {asked} engines, {side} spec.{role}.autoscaling.{field}Replicas, which is"
        f" {given}; {remedy} that, or ask for {'fewer' if side == 'above' else 'more'}",
    )


def _text(bound: Fraction | None) -> str:
    return f"{bound.numerator}/{bound.denominator}" if bound else "unset"
