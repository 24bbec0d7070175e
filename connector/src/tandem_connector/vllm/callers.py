# SPDX-License-Identifier: Apache-2.0
"""Objects of vLLM's that a connector is not given, but is called by."""

import sys
from types import FrameType
from typing import Any


def caller_with(*attributes: str) -> Any:
    """The nearest object among those whose methods are running now that has all of these attributes; None if none has."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - what `inspect.currentframe` is
    while frame is not None:
        owner = frame.f_locals.get("self")
        if owner is not None and all(hasattr(owner, attribute) for attribute in attributes):
            return owner
        frame = frame.f_back
    return None
