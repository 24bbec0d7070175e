# SPDX-License-Identifier: Apache-2.0
"""What planning can fail with."""


class InvalidSpec(Exception):  # noqa: N818 - named after what it says of the resource
    """The spec cannot be acted on, though the API server let it pass.

    Nothing is changed for such a resource; its condition `SpecValid` says why. Only a change of the spec helps.
    """

    def __init__(self, field: str, remedy: str) -> None:
        """`field` is the path in the resource, as `spec.prefill.podTemplate`; `remedy` says what is wrong and what to do."""
        super().__init__(f"{field}: {remedy}")
        self.field = field
        self.remedy = remedy
