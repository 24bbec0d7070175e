#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The first process of the node's namespaces, started by sandbox.py with the state folder as its working directory.
set -eu

# Pods may ask for volumes that see later mounts; that needs a shared root. The host sees none of it.
mount --make-rshared /

# Everything that containerd, runc, CNI and the kubelet write outside the state folder goes to these and ends with them.
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /var/log
mount -t tmpfs -o mode=755 tmpfs /var/lib/cni
mount -t tmpfs -o mode=755 tmpfs /var/lib/kubelet

# One short path without spaces for the state folder: socket paths hold a hundred characters, and configuration files
# have rules of quoting.
mkdir /run/tandem
mount --bind . /run/tandem

# The kubelet wants other values of these than most machines have, and would set them for the whole machine. It gets
# copies. (kubernetes/pkg/kubelet/cm/container_manager_linux.go, setupKernelTunables)
for setting in kernel/keys/root_maxbytes kernel/keys/root_maxkeys kernel/panic kernel/panic_on_oops \
    vm/overcommit_memory vm/panic_on_oom; do
    copy=/run/settings/$setting
    mkdir -p "${copy%/*}"
    cat "/proc/sys/$setting" >"$copy"
    mount --bind "$copy" "/proc/sys/$setting"
done

ip link set lo up
echo 1 >/proc/sys/net/ipv4/ip_forward

: >/run/tandem/sandbox-ready
# The kernel reaps the children of a process that ignores SIGCHLD, so this may be a first process.
exec env --ignore-signal=CHLD sleep infinity
