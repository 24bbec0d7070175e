# SPDX-License-Identifier: Apache-2.0
"""The key file as it changes on disk. It lies in a volume that the kubelet fills from a Secret, anew when that changes."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tandem_connector.vllm.keyring import Keyring, Keys
from tandem_connector.vllm.keys import KeyFileError, load_key

_log = logging.getLogger(__name__)
_EVERY: Final = 5.0
"""Seconds between two looks; far less than the time for which a replaced key is used on."""


class KeyFile:
    """Looks at the file, and at the clock, on a thread of its own."""

    def __init__(
        self, path: Path, keyring: Keyring, keys: Keys, changed: Callable[[Keys], None], *, every: float = _EVERY
    ) -> None:
        """Begin.

        Args:
            path: the key file.
            keyring: given to this for good.
            keys: those that are in use.
            changed: called on the looking thread with the keys to use from now on.
            every: seconds between two looks.
        """
        self._path = path
        self._keyring = keyring
        self._changed = changed
        self._every = every
        self._keys = keys
        self._said = ""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tandem-keys", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(self._every):
            self._look()

    def _look(self) -> None:
        now = time.monotonic()
        try:
            self._keyring.read(load_key(self._path), now)
            self._said = ""
        except KeyFileError as error:
            # What is known holds: a Secret that was deleted or spoilt must not part engines that run.
            if str(error) != self._said:
                self._said = str(error)
                _log.warning("key_file_not_taken why=%s", error)
        keys = self._keyring.at(now)
        if keys == self._keys:
            return
        _log.info("keys_changed known=%d listening=%s", len(keys.known), _turn(self._keys, keys))
        self._keys = keys
        self._changed(keys)


def _turn(before: Keys, now: Keys) -> str:
    return "same" if before.listening == now.listening else "new"
