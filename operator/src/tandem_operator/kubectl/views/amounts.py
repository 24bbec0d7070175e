# SPDX-License-Identifier: Apache-2.0
"""Amounts in words."""

from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def bytes_short(amount: float) -> str:
    """In at most five characters, for a column of many: `3.4M`."""
    return bytes_words(amount).replace("iB", "").replace(" ", "")


def bytes_words(amount: float) -> str:
    """With three digits, or four below the next unit."""
    unit = 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    if not amount:
        return "0"
    return f"{amount:.0f} {_UNITS[unit]}" if amount >= 100 else f"{amount:.3g} {_UNITS[unit]}"
