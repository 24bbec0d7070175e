# SPDX-License-Identifier: Apache-2.0
"""Reading the resource's key, and what ZeroMQ's CURVE makes of it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import zmq
from pydantic import ValidationError
from zmq.utils import z85

from tandem_connector.contract.environment import KEYS_FILE
from tandem_connector.contract.keys import ExchangeKey

_MAX_BYTES: Final = 4_096
_REMEDY: Final = (
    f"{KEYS_FILE} must name the file of the resource's Secret; "
    "to have a new key made, delete the Secret and restart the engines"
)


class KeyFileError(Exception):
    """The key can't be read, so the engine must not start: the text names the file and the remedy, never the key."""


@dataclass(frozen=True, slots=True)
class CurveKeys:
    """A key pair of the resource in ZeroMQ's form (Z85). An engine serves with it, connects with it, and accepts it."""

    public: bytes
    secret: bytes = field(repr=False)

    @classmethod
    def of(cls, key: ExchangeKey) -> "CurveKeys":
        """The pair that a key makes."""
        return cls._of(key.secret_key)

    @classmethod
    def before(cls, key: ExchangeKey) -> "CurveKeys | None":
        """The pair that the key takes the place of, if it names one."""
        return cls._of(key.previous_secret_key) if key.previous_secret_key is not None else None

    @classmethod
    def _of(cls, digits: str) -> "CurveKeys":
        secret = z85.encode(bytes.fromhex(digits))
        return cls(public=zmq.curve_public(secret), secret=secret)


def load_key(path: Path) -> ExchangeKey:
    """Read a key file.

    Raises:
        KeyFileError: there is no such file, or it holds something else.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES)
    except OSError as error:
        raise KeyFileError(f"key file {path}: {error.strerror or error}; {_REMEDY}") from error
    try:
        return ExchangeKey.model_validate_json(content)
    except ValidationError as error:
        what = "; ".join(f"{'.'.join(map(str, at['loc'])) or 'content'}: {at['msg']}" for at in error.errors())
        raise KeyFileError(f"key file {path} holds no key of the exchange ({what}); {_REMEDY}") from None
