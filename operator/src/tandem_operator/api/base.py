# SPDX-License-Identifier: Apache-2.0
"""What all models of the API have in common."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """A frozen part of the resource, with camelCase names on the wire.

    Unknown fields are ignored: the API server prunes what the CRD does not know, and an older operator must be able to
    read a resource that a newer CRD let through.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )
