# SPDX-License-Identifier: Apache-2.0
"""The settings of the kernel that the kubelet changes for the whole machine, kept to be put back."""

import json
from pathlib import Path

# What the kubelet sets unless `protectKernelDefaults` is on, when it refuses to start instead.
# Source: kubernetes/pkg/kubelet/cm/container_manager_linux.go, setupKernelTunables.
_CHANGED = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
_SETTINGS = Path("/proc/sys")


def keep(file: Path) -> None:
    """Write the present values to `file`."""
    present = {name: (_SETTINGS / name).read_text().strip() for name in _CHANGED if (_SETTINGS / name).exists()}
    file.write_text(json.dumps(present, indent=2) + "\n")


def put_back(file: Path) -> None:
    """Set what differs from `file`; nothing if there is none."""
    if file.exists():
        for name, value in json.loads(file.read_text()).items():
            if (_SETTINGS / name).read_text().strip() != value:
                (_SETTINGS / name).write_text(value)
