# SPDX-License-Identifier: Apache-2.0
"""The command to go on with, by the reason of a condition that is as it shouldn't be.

What to do is in the condition's own message; this is where to look next.
"""

from collections.abc import Mapping
from typing import Final

from tandem_operator.api.names import ENGINE_LABEL, ROLE_LABEL, SHORT_NAME
from tandem_operator.api.status import Reason

EXPLAIN: Final = "kubectl tandem explain {name} --namespace {namespace}"
_EDIT: Final = f"kubectl --namespace {{namespace}} edit {SHORT_NAME} {{name}}"
STATUS: Final = "kubectl tandem status {name} --namespace {namespace}"
_PAIRS: Final = "kubectl tandem topology {name} --namespace {namespace}"
_DOCTOR: Final = "kubectl tandem doctor"
_DESCRIBE: Final = f"kubectl --namespace {{namespace}} describe {SHORT_NAME} {{name}}"
_LOGS: Final = f"kubectl --namespace {{namespace}} logs --prefix --tail 100 --selector {ENGINE_LABEL}={{name}}"
_DECODE_LOGS: Final = f"{_LOGS},{ROLE_LABEL}=decode"

_COMMANDS: Final[Mapping[Reason, str]] = {
    Reason.INVALID: _EDIT,
    Reason.IMMUTABLE_FIELD: _DESCRIBE,
    Reason.APPLY_FAILED: _DESCRIBE,
    Reason.KEY_MISSING: "kubectl --namespace {namespace} get secrets",
    Reason.ROLLED_BACK: _DESCRIBE,
    Reason.PROGRESS_DEADLINE: STATUS,
    Reason.ROLLOUT_PAUSED: _EDIT,
    Reason.NIXL_MISSING: _EDIT,
    Reason.ENGINE_VERSIONS_DIFFER: _EDIT,
    Reason.ZONES_DIFFER: _PAIRS,
    Reason.POD_FAILING: STATUS,
    Reason.UNSCHEDULABLE: _DOCTOR,
    Reason.DEVICE_PLUGIN_MISSING: _DOCTOR,
    Reason.DEVICES_NOT_OFFERED: _DOCTOR,
    Reason.HUGE_PAGES_NOT_OFFERED: _DOCTOR,
    Reason.FRONT_DOOR_FAILING: "kubectl --namespace {namespace} describe deployment {name}",
    Reason.QUARANTINED: _PAIRS,
    Reason.REPLICA_BOUNDS: _EDIT,
    Reason.RATIO_BOUNDS: _EDIT,
    Reason.RATIO_UNREACHABLE: _EDIT,
    Reason.GPU_BUDGET: _EDIT,
    Reason.ENGINE_UNREACHABLE: "kubectl --namespace {namespace} get networkpolicies",
    Reason.TIMEOUT: _LOGS,
    Reason.NO_PEER: _DECODE_LOGS,
    Reason.VERSION_MISMATCH: _DECODE_LOGS,
    Reason.NOTHING_MOVED: _LOGS,
    Reason.NOTHING_MOVED_BACK: _LOGS,
    Reason.WRONG_OUTPUT: _PAIRS,
    Reason.VERIFICATION_REFUSED: STATUS,
    Reason.VERIFICATION_OFF: _EDIT,
    Reason.NOT_WITH_NIXL_PULL: _EDIT,
    Reason.CONVERSATION_REFUSED: _EDIT,
    Reason.WRONG_BACKEND: _LOGS,
    Reason.TCP_FALLBACK: _LOGS,
    Reason.DEVICES_MISSING: _DOCTOR,
}


def next_command(reason: str, namespace: str, name: str) -> str | None:
    """The command; None where there is none to go on with."""
    command = _COMMANDS.get(Reason(reason)) if reason in set(Reason) else None
    return command.format(namespace=namespace, name=name) if command else None
