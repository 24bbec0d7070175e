# SPDX-License-Identifier: Apache-2.0
"""etcd, API server, controller manager and scheduler: their credentials and their command lines.

Nothing here needs root. The order of the programs is the order to start them in.
"""

from pathlib import Path

from e2e.cluster.local.endpoints import LOOPBACK, Endpoints
from e2e.cluster.local.layout import Layout
from e2e.cluster.local.pki import Authority, kubeconfig, signing_key
from e2e.cluster.local.program import Program

SERVICE_CIDR = "10.96.0.0/16"
_API_SERVICE_ADDRESS = "10.96.0.1"

_ISSUER = "https://kubernetes.default.svc.cluster.local"
_API_SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", _ISSUER.removeprefix("https://"))


def write_credentials(layout: Layout, endpoints: Endpoints, authority: Authority) -> None:
    """Write the certificates and kubeconfig files of the control plane and of the administrator."""
    layout.pki.mkdir(parents=True, mode=0o700)
    layout.config.mkdir(parents=True, exist_ok=True)
    (layout.certificate("ca")).write_bytes(authority.certificate)
    api_hosts = (endpoints.address, LOOPBACK, "localhost", _API_SERVICE_ADDRESS, *_API_SERVICE_NAMES)
    authority.issue("kube-apiserver", group="system:masters", hosts=api_hosts).write(layout.pki, "kube-apiserver")
    authority.issue("etcd", hosts=(endpoints.address, LOOPBACK)).write(layout.pki, "etcd")
    private, public = signing_key()
    layout.key("service-accounts").touch(mode=0o600)
    layout.key("service-accounts").write_bytes(private)
    layout.certificate("service-accounts").write_bytes(public)
    for program in ("kube-controller-manager", "kube-scheduler"):
        write_kubeconfig(layout.kubeconfig_of(program), endpoints, authority, user=f"system:{program}")
    write_kubeconfig(layout.kubeconfig, endpoints, authority, user="admin", group="system:masters")


def write_kubeconfig(path: Path, endpoints: Endpoints, authority: Authority, *, user: str, group: str = "") -> None:
    """Write a kubeconfig with a new client certificate, readable by the owner only."""
    path.touch(mode=0o600)
    path.write_text(kubeconfig(endpoints.server, authority.certificate, authority.issue(user, group=group)))


def programs(
    binary: Path, layout: Layout, endpoints: Endpoints, *, pods_reach_it: bool
) -> tuple[list[Program], list[Program]]:
    """The programs of the control plane: those to start first, and those that need an API server that answers.

    Args:
        binary: The one with all programs.
        layout: As the programs see it.
        endpoints: Where they listen.
        pods_reach_it: The address is one that pods can reach, so that the API server may name it in its Service.
    """
    return (
        [_etcd(binary, layout, endpoints), _apiserver(binary, layout, endpoints, pods_reach_it)],
        [_controller_manager(binary, layout, endpoints), _scheduler(binary, layout, endpoints)],
    )


def _etcd(binary: Path, layout: Layout, endpoints: Endpoints) -> Program:
    peers = f"http://{LOOPBACK}:{endpoints.etcd_peers}"
    argv = [
        f"{binary}",
        "etcd",
        f"--advertise-client-urls=https://{endpoints.address}:{endpoints.etcd}",
        f"--cert-file={layout.certificate('etcd')}",
        "--client-cert-auth",
        f"--data-dir={layout.etcd}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        f"--key-file={layout.key('etcd')}",
        f"--listen-client-urls=https://{endpoints.address}:{endpoints.etcd}",
        f"--listen-peer-urls={peers}",
        "--log-level=warn",
        f"--trusted-ca-file={layout.certificate('ca')}",
        # The data is thrown away with the cluster; waiting for the disk would only slow the tests.
        "--unsafe-no-fsync",
    ]
    return Program("etcd", argv)


def _apiserver(binary: Path, layout: Layout, endpoints: Endpoints, pods_reach_it: bool) -> Program:
    # Kubernetes refuses a loopback address in the endpoints of its own Service.
    reconciler = "lease" if pods_reach_it else "none"
    argv = [
        f"{binary}",
        "kube-apiserver",
        f"--advertise-address={endpoints.address}",
        "--allow-privileged",
        "--authorization-mode=Node,RBAC",
        f"--bind-address={endpoints.address}",
        f"--client-ca-file={layout.certificate('ca')}",
        f"--endpoint-reconciler-type={reconciler}",
        f"--etcd-cafile={layout.certificate('ca')}",
        f"--etcd-certfile={layout.certificate('kube-apiserver')}",
        f"--etcd-keyfile={layout.key('kube-apiserver')}",
        f"--etcd-servers=https://{endpoints.address}:{endpoints.etcd}",
        "--event-ttl=2h",
        f"--kubelet-certificate-authority={layout.certificate('ca')}",
        f"--kubelet-client-certificate={layout.certificate('kube-apiserver')}",
        f"--kubelet-client-key={layout.key('kube-apiserver')}",
        # The node's name is in no DNS, so logs and exec must go to its address.
        "--kubelet-preferred-address-types=InternalIP,Hostname",
        "--profiling=false",
        f"--secure-port={endpoints.apiserver}",
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-key-file={layout.certificate('service-accounts')}",
        f"--service-account-signing-key-file={layout.key('service-accounts')}",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        f"--tls-cert-file={layout.certificate('kube-apiserver')}",
        f"--tls-private-key-file={layout.key('kube-apiserver')}",
    ]
    return Program("kube-apiserver", argv, f"{endpoints.server}/readyz")


def _controller_manager(binary: Path, layout: Layout, endpoints: Endpoints) -> Program:
    argv = [
        f"{binary}",
        "kube-controller-manager",
        *_serving(layout, endpoints, "kube-controller-manager", endpoints.controller_manager),
        f"--root-ca-file={layout.certificate('ca')}",
        f"--service-account-private-key-file={layout.key('service-accounts')}",
        # RBAC knows the controllers by their own accounts; the manager's alone may not write endpoints.
        "--use-service-account-credentials=true",
    ]
    health = f"https://{endpoints.address}:{endpoints.controller_manager}/healthz"
    return Program("kube-controller-manager", argv, health)


def _scheduler(binary: Path, layout: Layout, endpoints: Endpoints) -> Program:
    argv = [
        f"{binary}",
        "kube-scheduler",
        *_serving(layout, endpoints, "kube-scheduler", endpoints.scheduler),
    ]
    return Program("kube-scheduler", argv, f"https://{endpoints.address}:{endpoints.scheduler}/healthz")


def _serving(layout: Layout, endpoints: Endpoints, program: str, port: int) -> list[str]:
    kubeconfig_path = layout.kubeconfig_of(program)
    return [
        f"--authentication-kubeconfig={kubeconfig_path}",
        "--authentication-skip-lookup=true",
        f"--authorization-kubeconfig={kubeconfig_path}",
        f"--bind-address={endpoints.address}",
        f"--kubeconfig={kubeconfig_path}",
        "--leader-elect=false",
        "--profiling=false",
        f"--secure-port={port}",
        f"--tls-cert-file={layout.certificate('kube-apiserver')}",
        f"--tls-private-key-file={layout.key('kube-apiserver')}",
    ]
