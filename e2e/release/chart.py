# SPDX-License-Identifier: Apache-2.0
"""The chart as it is published: with the images that were published before it, by digest."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from e2e.release.versions import NotReleasableError

SOURCE_REGISTRY: Final = "tandem.dev"
"""Where values.yaml says that the images are: nowhere, until somebody publishes them."""


def published_values(values: str, registry: str, digests: Mapping[str, str]) -> str:
    """values.yaml with these images' digests, at this registry.

    Raises:
        NotReleasableError: the values have an image without a digest here, or not one that has one.
    """
    wanted = set(re.findall(rf"^  repository: {re.escape(SOURCE_REGISTRY)}/(\S+)$", values, re.MULTILINE))
    if wanted != set(digests):
        raise NotReleasableError(
            f"the chart has the images {sorted(wanted)}, and digests are given of {sorted(digests)}"
        )
    for name, digest in digests.items():
        if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
            raise NotReleasableError(f"{digest!r} is no digest of {name}")
        pattern = rf'^(  repository: ){re.escape(SOURCE_REGISTRY)}/{name}$((?:(?!^  repository:).)*?)^  digest: ""$'
        values, count = re.subn(
            pattern, rf'\g<1>{registry}/{name}\g<2>  digest: "{digest}"', values, flags=re.MULTILINE | re.DOTALL
        )
        if count != 1:
            raise NotReleasableError(f"the chart has {count} places for the digest of {name}")
    return values


def write_published_chart(source: Path, target: Path, registry: str, digests: Mapping[str, str]) -> None:
    """A copy of the chart with `published_values`.

    Raises:
        NotReleasableError: as `published_values`.
    """
    values = published_values((source / "values.yaml").read_text(encoding="utf-8"), registry, digests)
    shutil.copytree(source, target)
    (target / "values.yaml").write_text(values, encoding="utf-8")
