# SPDX-License-Identifier: Apache-2.0
"""What is asked of the control plane's etcd itself, past the API server."""

import json
import ssl
import urllib.request
from base64 import b64encode
from pathlib import Path
from typing import Any

from e2e.cluster.interface import ClusterError
from e2e.cluster.local.layout import Layout
from e2e.cluster.local.state import Record


def compact(state: Path) -> int:
    """Forget all versions of objects but the present ones, as the API server asks for every five minutes.

    Args:
        state: folder of the local cluster.

    Returns:
        The revision that is the oldest now.

    Raises:
        ClusterError: there is no cluster.
        OSError: etcd refuses or does not answer.
    """
    revision = int(_ask(state, "range", {"key": b64encode(b"/").decode()})["header"]["revision"])
    _ask(state, "compaction", {"revision": str(revision), "physical": True})
    return revision


def _ask(state: Path, what: str, question: dict[str, Any]) -> Any:
    # etcd's own JSON form of its API: https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/
    layout = Layout(state)
    if not (record := Record.read(layout)):
        raise ClusterError(f"there is no cluster in {state}")
    context = ssl.create_default_context(cafile=layout.certificate("ca"))
    context.load_cert_chain(layout.certificate("kube-apiserver"), layout.key("kube-apiserver"))
    url = f"https://{record.endpoints.address}:{record.endpoints.etcd}/v3/kv/{what}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    with opener.open(url, json.dumps(question).encode(), timeout=10) as answer:
        return json.load(answer)
