# SPDX-License-Identifier: Apache-2.0
"""How benchmarks tell their results: one line each."""


def figure(name: str, value: float, unit: str) -> None:
    """Print a result: a count as it is, anything else to four digits."""
    shown = f"{value:.0f}" if float(value).is_integer() else f"{value:.4g}"
    print(f"figure {name} {shown} {unit}", flush=True)
