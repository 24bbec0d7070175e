# SPDX-License-Identifier: Apache-2.0
"""The key of one resource: whose engines have it may exchange KV, and nobody else is listened to.

It is the content of a Secret, mounted into each of the resource's engines as a file, and never leaves them. All engines
of a resource have the same key, so each is at once its own proof of identity and the only one that is accepted.
"""

import secrets
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class ExchangeKey(BaseModel):
    """A key file. It needs no public half: that follows from the secret one.

    Raises:
        pydantic.ValidationError: on `model_validate_json` of anything else; its text doesn't repeat the key.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, hide_input_in_errors=True
    )

    version: Literal[1] = 1
    secret_key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", repr=False)]
    """32 bytes as hexadecimal digits: any 32 bytes are a key of Curve25519 (RFC 7748, section 5)."""
    previous_secret_key: Annotated[str | None, Field(pattern=r"^[0-9a-f]{64}$", repr=False)] = None
    """The key that this one takes the place of, while engines may still use it."""

    @classmethod
    def generate(cls) -> Self:
        """A new key, from the operating system's source of randomness."""
        return cls(secret_key=secrets.token_hex(32))

    def to_file(self) -> str:
        """The content of the key file."""
        return self.model_dump_json(by_alias=True, exclude_none=True)
