# SPDX-License-Identifier: Apache-2.0
"""The programs of the node: containerd, kubelet, kube-proxy and the cluster's DNS, with their configuration.

All paths are those of the sandbox, whose network is the node's own. Written for Kubernetes 1.35, the last kubelet that
works with containerd 1.6, which Debian 12 has.
"""

import json
from pathlib import Path
from typing import Any

from e2e.cluster.local import cgroups, packages, pause_image
from e2e.cluster.local.control_plane import write_kubeconfig
from e2e.cluster.local.endpoints import LOOPBACK, Endpoints
from e2e.cluster.local.layout import Layout
from e2e.cluster.local.pki import Authority
from e2e.cluster.local.program import Program
from e2e.cluster.local.sandbox import INSIDE, NODE_ADDRESS, NODE_POD_CIDR, POD_CIDR

NAME = "tandem"
"""The node's name."""

CONTAINERD_SOCKET = Path("/run/containerd/containerd.sock")
_BRIDGE = "pods0"
_DNS_READY_PORT = 10255
_KUBELET_HEALTH_PORT = 10248
_PROXY_HEALTH_PORT = 10256
_SEEN = Layout(INSIDE)


def ctr(*arguments: str) -> list[str]:
    """The command line of containerd's client for the images and containers of Kubernetes."""
    return ["ctr", f"--address={CONTAINERD_SOCKET}", "--namespace=k8s.io", *arguments]


def write_configuration(layout: Layout, endpoints: Endpoints, authority: Authority) -> None:
    """Write credentials and configuration files; the control plane's must be there.

    Args:
        layout: The state folder as seen from outside, to write to.
        endpoints: Where the control plane listens.
        authority: Signs the node's certificates.
    """
    node = authority.issue(f"system:node:{NAME}", group="system:nodes", hosts=(NODE_ADDRESS, NAME))
    node.write(layout.pki, "kubelet")
    for program, user, group in (
        ("kubelet", f"system:node:{NAME}", "system:nodes"),
        ("kube-proxy", "system:kube-proxy", ""),
        ("coredns", "system:coredns", ""),
    ):
        write_kubeconfig(layout.kubeconfig_of(program), endpoints, authority, user=user, group=group)
    for folder in (layout.cni, layout.containerd, layout.kubelet, layout.pod_logs):
        folder.mkdir()
    (layout.config / "resolv.conf").write_text(f"nameserver {NODE_ADDRESS}\n")
    (layout.config / "containerd.toml").write_text(_containerd_toml())
    (layout.config / "Corefile").write_text(_corefile())
    _write_json(layout.config / "kubelet.json", _kubelet_configuration())
    _write_json(layout.config / "kube-proxy.json", _proxy_configuration(bridge_calls_iptables=_bridge_calls_iptables()))
    _write_json(layout.cni / "10-bridge.conflist", _cni_configuration())


def container_programs() -> list[Program]:
    """What must run before the kubelet."""
    return [Program("containerd", ["containerd", f"--config={_SEEN.config / 'containerd.toml'}"])]


def node_programs(binary: Path) -> list[Program]:
    """The kubelet, the proxy of Services and the DNS. They need API server and containerd."""
    kubelet = [
        f"{binary}",
        "kubelet",
        f"--config={_SEEN.config / 'kubelet.json'}",
        f"--hostname-override={NAME}",
        f"--kubeconfig={_SEEN.kubeconfig_of('kubelet')}",
        f"--node-ip={NODE_ADDRESS}",
        f"--root-dir={_SEEN.kubelet}",
    ]
    proxy = [f"{binary}", "kube-proxy", f"--config={_SEEN.config / 'kube-proxy.json'}"]
    dns = [f"{binary}", "coredns", "-conf", str(_SEEN.config / "Corefile")]
    return [
        Program("kubelet", kubelet, f"http://{NODE_ADDRESS}:{_KUBELET_HEALTH_PORT}/healthz"),
        Program("kube-proxy", proxy, f"http://{NODE_ADDRESS}:{_PROXY_HEALTH_PORT}/healthz"),
        Program("coredns", dns, f"http://{NODE_ADDRESS}:{_DNS_READY_PORT}/ready"),
    ]


def dns_rights() -> list[dict[str, Any]]:
    """The objects that let the DNS read what it serves."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "system:coredns"},
        "rules": [
            {"apiGroups": [""], "resources": ["namespaces", "pods", "services"], "verbs": ["list", "watch"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        ],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "system:coredns"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:coredns"}],
    }
    return [role, binding]


def _containerd_toml() -> str:
    # restrict_oom_score_adj: in a container nobody may lower the score, and runc ends with "can't get final child's PID
    # from pipe: EOF". disable_apparmor: the profile would stay loaded in the host's kernel. opt: the default is
    # /opt/containerd, outside the state folder.
    return f"""\
version = 2
root = "{_SEEN.containerd / "root"}"
state = "/run/containerd/state"
oom_score = 0
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{_SEEN.containerd / "opt"}"

[plugins."io.containerd.grpc.v1.cri"]
  disable_apparmor = true
  restrict_oom_score_adj = true
  sandbox_image = "{pause_image.REFERENCE}"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{packages.CNI_PLUGINS}"
    conf_dir = "{_SEEN.cni}"

  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def _corefile() -> str:
    # No cache: it would hide a new pod's name for as long as its absence was cached. Other names don't exist, as pods
    # have no way there; a failure instead would make resolvers ask again and again.
    return f"""\
cluster.local:53 in-addr.arpa:53 {{
    bind {NODE_ADDRESS}
    errors
    ready {NODE_ADDRESS}:{_DNS_READY_PORT}
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {_SEEN.kubeconfig_of("coredns")}
        ttl 1
    }}
}}
.:53 {{
    bind {NODE_ADDRESS}
    errors
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
}}
"""


def _kubelet_configuration() -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(_SEEN.certificate("ca"))},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroups.GROUP}",
        "clusterDNS": [NODE_ADDRESS],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "enforceNodeAllocatable": [],
        # A developer's disk may be fuller than a server's; evicting pods or images would only confuse.
        "evictionHard": dict.fromkeys(("imagefs.available", "memory.available", "nodefs.available"), "0%"),
        "failCgroupV1": False,
        "failSwapOn": False,
        "healthzBindAddress": NODE_ADDRESS,
        "healthzPort": _KUBELET_HEALTH_PORT,
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "localStorageCapacityIsolation": False,
        "oomScoreAdj": 0,
        "podLogsDir": str(_SEEN.pod_logs),
        "resolvConf": str(_SEEN.config / "resolv.conf"),
        "tlsCertFile": str(_SEEN.certificate("kubelet")),
        "tlsPrivateKeyFile": str(_SEEN.key("kubelet")),
        "volumePluginDir": str(_SEEN.kubelet / "volume-plugins"),
    }


def _proxy_configuration(*, bridge_calls_iptables: bool) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "bindAddress": NODE_ADDRESS,
        "clientConnection": {"kubeconfig": str(_SEEN.kubeconfig_of("kube-proxy"))},
        "clusterCIDR": POD_CIDR,
        # Zero: leave the kernel's table of connections as it is. Only the first network namespace may size it.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpCloseWaitTimeout": "0s", "tcpEstablishedTimeout": "0s"},
        "healthzBindAddress": f"{NODE_ADDRESS}:{_PROXY_HEALTH_PORT}",
        "hostnameOverride": NAME,
        # Without br_netfilter the answer of a pod on the same bridge would bypass the rules that restore the Service's
        # address; going through the node's own address brings it back to them.
        "iptables": {"masqueradeAll": not bridge_calls_iptables},
        "metricsBindAddress": f"{LOOPBACK}:10249",
        "mode": "iptables",
        "oomScoreAdj": 0,
    }


def _bridge_calls_iptables() -> bool:
    return Path("/proc/sys/net/bridge/bridge-nf-call-iptables").exists()


def _cni_configuration() -> dict[str, Any]:
    addresses = {
        "type": "host-local",
        "dataDir": "/run/cni/addresses",
        "ranges": [[{"subnet": NODE_POD_CIDR}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": _BRIDGE,
        # A pod may be an endpoint of the Service that it calls.
        "hairpinMode": True,
        "ipam": addresses,
        "ipMasq": False,
        "isGateway": True,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")
