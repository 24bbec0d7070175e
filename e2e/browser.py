# SPDX-License-Identifier: Apache-2.0
"""Debian's Chromium without a window, for pages that Tandem serves."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from e2e.cluster.local.packages import install

_PACKAGE: Final = "chromium-headless-shell"


class Shown(NamedTuple):
    """A page as a browser has it after its scripts have run for a while."""

    dom: str
    console: str
    """What the browser and the page's scripts complained about, among other things."""


def chromium() -> str | None:
    """The browser, installed if it isn't there; None where it isn't and can't be."""
    found = shutil.which(_PACKAGE) or shutil.which("chromium")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        install(_PACKAGE)
        found = shutil.which(_PACKAGE)
    return found


def shown(browser: str, url: str, profile: Path, *, seconds: float = 5.0, options: tuple[str, ...] = ()) -> Shown:
    """Open the page, let so many seconds of its own time pass, and take what it has become.

    The browser's clock runs ahead while nothing is awaited, so this takes less time than the page sees.
    """
    command = [
        browser,
        # Its sandbox doesn't start as root, and the only pages are our own.
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
        *(f"--user-data-dir={profile}", "--enable-logging=stderr", "--log-level=0"),
        *(f"--virtual-time-budget={int(seconds * 1000)}", *options, "--dump-dom", url),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    return Shown(done.stdout, done.stderr)
