# SPDX-License-Identifier: Apache-2.0
"""kopf's memory of objects, which nothing here needs: it watches, and has no handlers of changes.

kopf's own storages copy each object that a watch tells of, several times, to compare it with what it stored in the object's
annotations, whether or not there is a handler for the difference (`kopf/_core/reactor/processing.py`, `_detect_causes`). With 1,000
engines that was a sixth of what the operator computed.
"""

from typing import Any, NoReturn

import kopf


class NoEssence(kopf.DiffBaseStorage):
    """Of no object there is anything to compare."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Nothing of it matters."""
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        """Nothing was stored."""

    def store(self, **_: Any) -> NoReturn:
        """Nothing is: only a handler of changes would lead here.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("the operator has no handlers whose state kopf keeps")


class NoProgress(kopf.ProgressStorage):
    """No handler is ever repeated."""

    def fetch(self, **_: Any) -> None:
        """Nothing was stored."""

    def store(self, **_: Any) -> NoReturn:
        """Nothing is, as above.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("the operator has no handlers whose state kopf keeps")

    def purge(self, **_: Any) -> None:
        """There is nothing."""

    def touch(self, **_: Any) -> None:
        """No object is."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """There is nothing of it in there."""
        return essence
