# SPDX-License-Identifier: Apache-2.0
"""Sets the time of day of the process that has this folder in its `PYTHONPATH`: off by as many seconds as a file says at that time.

That is, what Python answers when it is asked for it, as the operator does. The monotonic clock goes on, as when a machine's is set.
"""

import datetime as dt
import os
import time
from pathlib import Path
from typing import Any

_OFF = Path(os.environ["TANDEM_CHAOS_CLOCK"])
_TRUE_TIME = time.time
_TRUE_DATETIME = dt.datetime


def _off() -> float:
    return float(_OFF.read_text() or 0)


class _Alike(type):
    """What C code makes counts as one of these too."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _TRUE_DATETIME)


class _Datetime(dt.datetime, metaclass=_Alike):
    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Any:
        return _TRUE_DATETIME.now(tz) + dt.timedelta(seconds=_off())


time.time = lambda: _TRUE_TIME() + _off()
dt.datetime = _Datetime  # type: ignore[misc]
