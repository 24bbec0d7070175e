# SPDX-License-Identifier: Apache-2.0
"""What vLLM's CPU platform turns off for every engine, and engines that try things may leave on: see `plugin` beside it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

VARIABLE: Final = "TANDEM_UNLOCKED"
"""Names what is left on, in an engine's environment."""


class Unlocked(StrEnum):
    """What is left on."""

    FORK = "fork"
    """An engine's processes are forks of its server, so that it imports everything once instead of three times."""
    MLA_PREFIX_CACHING = "mla_prefix_caching"
    """Prefix caching and chunked prefill of models with latent attention."""
    ASYNC_SCHEDULING = "async_scheduling"
    """The next step is scheduled while one runs."""


def unlocked(*what: Unlocked) -> Mapping[str, str]:
    """Variables for an engine of the CPU engine environment, which has the plugin, that leave this on beside forking."""
    return {VARIABLE: ",".join((Unlocked.FORK, *what))}
