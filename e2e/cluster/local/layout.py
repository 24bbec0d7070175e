# SPDX-License-Identifier: Apache-2.0
"""Where the cluster keeps what in its state folder."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """Paths below `root`, which differs with who looks: the sandbox of a node sees the state folder elsewhere."""

    root: Path

    @property
    def kubeconfig(self) -> Path:
        """For people and tests: an administrator's."""
        return self.root / "kubeconfig"

    @property
    def kubectl_cache(self) -> Path:
        """What kubectl keeps of the API server's answers; otherwise it would be in the user's home folder."""
        return self.root / "kubectl-cache"

    @property
    def record(self) -> Path:
        """What this cluster is, written when it was complete."""
        return self.root / "cluster.json"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def etcd(self) -> Path:
        return self.root / "etcd"

    @property
    def config(self) -> Path:
        """Configuration files of the programs."""
        return self.root / "config"

    @property
    def cni(self) -> Path:
        return self.root / "cni"

    @property
    def containerd(self) -> Path:
        return self.root / "containerd"

    @property
    def kubelet(self) -> Path:
        return self.root / "kubelet"

    @property
    def pod_logs(self) -> Path:
        return self.root / "pod-logs"

    @property
    def sandbox_ready(self) -> Path:
        """Exists once the sandbox of a node was set up, also after its end."""
        return self.root / "sandbox-ready"

    def kubeconfig_of(self, program: str) -> Path:
        return self.config / f"{program}.kubeconfig"

    def certificate(self, name: str) -> Path:
        return self.pki / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.pki / f"{name}.key"

    def log(self, program: str) -> Path:
        return self.root / "logs" / f"{program}.log"
