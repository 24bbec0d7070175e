# SPDX-License-Identifier: Apache-2.0
"""CHANGELOG.md, of which a release needs a section of its own."""

import re

from e2e.release.versions import NotReleasableError


def notes(changelog: str, version: str) -> str:
    """What the changelog says of a version, which is dated: `## 1.2.3 - 2026-01-31`.

    Raises:
        NotReleasableError: it says nothing of it, or has no date.
    """
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    for section in sections:
        heading, _, text = section.partition("\n")
        if heading.split(" ")[0].strip("[]") != version:
            continue
        if not re.fullmatch(r"\S+ - \d{4}-\d{2}-\d{2}", heading.strip()):
            raise NotReleasableError(
                f"CHANGELOG.md has no date in its heading of {version}: `## {version} - YYYY-MM-DD`"
            )
        if not re.search(r"^\* ", text, re.MULTILINE):
            raise NotReleasableError(f"CHANGELOG.md says nothing of {version}")
        return text.strip() + "\n"
    raise NotReleasableError(
        f"CHANGELOG.md has no section of {version}: rename `## Unreleased` to `## {version} - YYYY-MM-DD`"
    )
