# SPDX-License-Identifier: Apache-2.0
"""How a resource names other objects of its namespace."""

from tandem_operator.api.base import ApiModel
from tandem_operator.api.values import DataKey, Name


class SecretKey(ApiModel):
    """One key of a Secret in the resource's namespace."""

    name: Name
    """Name of the Secret."""
    key: DataKey
    """Key in the Secret's data."""


class LocalObject(ApiModel):
    """An object in the resource's namespace."""

    name: Name
    """Its name."""
