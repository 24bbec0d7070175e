# SPDX-License-Identifier: Apache-2.0
"""What can become of a request, named after what the caller does next."""

from datetime import timedelta


class KubeError(Exception):
    """A request to the API server did not do what it should."""


class Requeue(KubeError):  # noqa: N818 -- this and the following say what to do, or what is so
    """Nothing is wrong with what was asked; look at the resource again after `after`.

    Raised when the API server can't be reached, has too much to do, or is busy removing something that is in the way.
    """

    def __init__(self, message: str, after: timedelta) -> None:
        super().__init__(message)
        self.after = after


class Gone(KubeError):  # noqa: N818
    """The object does not exist (404, 410): forget it, or make it."""


class Conflict(KubeError):  # noqa: N818
    """The object is another one than the caller meant, or was changed since it was read (409): read it again."""


class Refused(KubeError):  # noqa: N818
    """The API server will not do this, however often it is asked (400, 403, 413, 422): tell the user.

    The text has the server's own words.
    """


class ImmutableField(Refused):
    """A field that can't be changed in place would have to change (422): the object has to be replaced, or the spec put back."""
