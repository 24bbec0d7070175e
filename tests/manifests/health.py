# SPDX-License-Identifier: Apache-2.0
"""Runs the health scripts of `manifests/argocd` in Lua 5.1 with the libraries that Argo CD gives them."""

from typing import Any, Final

from lupa.lua51 import LuaRuntime

from tests.manifests.checking import Manifest, of_kind

_KEY: Final = "resource.customizations.health.tandem.dev_"
_WITHHELD: Final = ("string", "math", "io", "debug", "coroutine", "python")
"""Argo CD opens base, table, package and a small os."""


def script(kind: str) -> str:
    """As in the ConfigMap."""
    found: str = of_kind("argocd/argocd-cm.yaml", "ConfigMap")["data"][f"{_KEY}{kind}"]
    return found


def health(manifest: Manifest) -> tuple[str, str]:
    """What Argo CD would show of the object: status and message."""
    lua: Any = LuaRuntime(register_eval=False, register_builtins=False)
    for name in _WITHHELD:
        lua.globals()[name] = None
    lua.globals().obj = lua.table_from(manifest, recursive=True)
    found = lua.execute(script(manifest["kind"]))
    return str(found.status), str(found.message)
