# SPDX-License-Identifier: Apache-2.0
"""The programs of the local cluster, and what is tried beside it, built from Go modules and kept in the cache."""

import json
import os
import re
import shutil
import subprocess
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from e2e.cache import BuildError, built_once, cache_root, key_of
from e2e.cluster.progress import Progress

KUBERNETES_VERSION = "v1.35.4"

_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


@dataclass(frozen=True)
class _Module:
    name: str
    """Of the binary, and of the folder with its go.mod."""
    package: str
    linker_flags: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return Path(__file__).parent / self.name

    @property
    def build_flags(self) -> list[str]:
        return ["-trimpath", "-buildvcs=false", "-ldflags", " ".join(["-s", "-w", *self.linker_flags])]

    @property
    def cached_as(self) -> str:
        sources = sorted(self.folder.glob("*.go"))
        flags = " ".join(self.build_flags)
        key = key_of(self.folder / "go.mod", self.folder / "go.sum", *sources, flags, self.package)
        return f"{self.name}-{key}/{self.name}"


_LWS = _Module("lws", "sigs.k8s.io/lws/cmd")


def build_kubernetes() -> Path:
    """The binary whose first argument names the program: `kubectl`, `kubelet`, `etcd`, `coredns`, ...

    Built on the first call: six to ten minutes on two cores, 5 GB of memory, 2 GB in Go's own cache.

    Raises:
        BuildError: Go is missing or the build failed.
    """
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    # Without these the server says v0.0.0, which Helm's kubeVersion checks refuse.
    variables = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    assignments = [f"-X {package}.{name}={value}" for package in _VERSION_PACKAGES for name, value in variables.items()]
    return _built(_Module("kubernetes", ".", tuple(assignments)))


def build_kwok() -> Path:
    """kwok, which plays the kubelet of simulated nodes. Built on the first call, in two to three minutes.

    Raises:
        BuildError: Go is missing or the build failed.
    """
    return _built(_Module("kwok", "sigs.k8s.io/kwok/cmd/kwok"))


def build_argocd() -> Path:
    """Argo CD's own code, asked by `argocd/main.go`: health and differences. Built on the first call, in five to seven minutes.

    Raises:
        BuildError: Go is missing or the build failed.
    """
    return _built(_Module("argocd", "."))


def build_lws() -> Path:
    """LeaderWorkerSet's controller manager, DisaggregatedSet's included. Built on the first call, in two to four minutes.

    Raises:
        BuildError: Go is missing or the build failed.
    """
    return _built(_LWS)


def lws_manifests() -> Path:
    """The folder `config` of the same module: its CRDs, its rights and its webhooks.

    Raises:
        BuildError: Go is missing or the module can't be had.
    """
    return built_once(f"{_LWS.cached_as.partition('/')[0]}/config", _copy_lws_manifests)


def _copy_lws_manifests(output: Path) -> None:
    asked = subprocess.run(
        ["go", "mod", "download", "-json", "sigs.k8s.io/lws"],
        cwd=_LWS.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode:
        raise BuildError(f"the module of lws could not be fetched:\n{asked.stderr[-2000:]}")
    config = Path(json.loads(asked.stdout)["Dir"]) / "config"
    for each in config.rglob("*.yaml"):
        copy = output / each.relative_to(config)
        copy.parent.mkdir(parents=True, exist_ok=True)
        # Not its mode: Go's own cache is read-only.
        copy.write_bytes(each.read_bytes())


def _built(module: _Module) -> Path:
    if not (cache_root() / module.cached_as).exists() and not shutil.which("go"):
        raise BuildError(f"{module.name} is built from Go modules, and there is no Go here: install Go 1.26 or newer")
    return built_once(module.cached_as, lambda output: _build(module, output))


def _build(module: _Module, output: Path) -> None:
    environment = {**os.environ, "CGO_ENABLED": "0"}
    with Progress(f"building {module.name} from source, once") as progress:
        progress.update("fetching its modules")
        listed = subprocess.run(
            ["go", "list", "-deps", module.package],
            cwd=module.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if listed.returncode:
            raise BuildError(
                f"the modules of {module.name} could not be fetched; it takes Go 1.26 or newer, and Debian 12's own is "
                f"1.19:\n{listed.stderr[-2000:]}"
            )
        total = len(listed.stdout.splitlines())
        command = ["go", "build", "-v", "-p", str(os.cpu_count() or 2), *module.build_flags]
        build = subprocess.Popen(
            [*command, "-o", str(output), module.package],
            cwd=module.folder,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        with build:
            reader = _Reader(build)
            reader.start()
            while reader.is_alive():
                reader.join(0.5)
                # Packages that Go has in its own cache are not named, so the count may end short of the total.
                progress.update(f"{reader.packages} of up to {total} packages")
        if build.returncode:
            raise BuildError(f"building {module.name} failed:\n" + "\n".join(reader.tail))


class _Reader(threading.Thread):
    """Counts the packages that `go build -v` names, and keeps what it says last."""

    def __init__(self, build: subprocess.Popen[str]) -> None:
        super().__init__(daemon=True)
        self._build = build
        self.packages = 0
        self.tail: deque[str] = deque(maxlen=30)

    def run(self) -> None:
        for line in self._build.stderr or ():
            self.packages += bool(re.fullmatch(r"[\w./~-]+\n", line))
            self.tail.append(line.rstrip())
