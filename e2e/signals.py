# SPDX-License-Identifier: Apache-2.0
"""How a long run is told to end."""

import signal


def end_in_order_when_told() -> None:
    """Have SIGINT, and SIGTERM as well, raise `KeyboardInterrupt` in the main thread, so that all that was started is ended.

    A shell that isn't interactive starts what is to run in the background (`&`, `nohup`) with SIGINT ignored, and then Python
    leaves it at that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
