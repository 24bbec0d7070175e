# SPDX-License-Identifier: Apache-2.0
"""The images of this project."""

import tomllib
from pathlib import Path, PurePosixPath

from e2e.engine.unlocked import unlocked
from e2e.images.declaration import PYTHON, REPOSITORY, Image, TextFile, Venv, Wheels
from tandem_connector.contract.environment import CONNECTOR_PATH

_VERSION: str = tomllib.loads((REPOSITORY / "operator" / "pyproject.toml").read_text())["project"]["version"]
_APPLICATION = Venv(PurePosixPath("/opt/tandem"))
_ROUTER = Venv(PurePosixPath("/opt/router"))
ENGINE_VENV = Venv(PurePosixPath("/opt/engine"))
"""Where the thin engine image expects the engine environment."""
_PYTHON_SYSTEM = ("base-files", PYTHON)
_CONNECTOR = PurePosixPath("/opt/tandem-connector")

OPERATOR = Image(
    name="operator",
    version=_VERSION,
    summary="Tandem's Kubernetes operator",
    packages=_PYTHON_SYSTEM,
    venv=_APPLICATION,
    wheels=Wheels(_APPLICATION.site_packages, member="tandem-operator", own=("tandem-connector", "tandem-operator")),
    environment={"PYTHONUNBUFFERED": "1"},
    entrypoint=("python3", "-m", "tandem_operator", "run"),
)

FRONT_DOOR = Image(
    name="front-door",
    version=_VERSION,
    summary="vllm-router, the default front door of Tandem's engines",
    packages=(*_PYTHON_SYSTEM, "libstdc++6"),
    venv=_ROUTER,
    wheels=Wheels(_ROUTER.site_packages, project=Path("e2e/images/front_door")),
    files=(
        TextFile(
            _ROUTER.root / "bin" / "vllm-router",
            f"#!{_ROUTER.python}\nimport sys\nfrom vllm_router.launch_router import main\nsys.exit(main())\n",
            executable=True,
        ),
    ),
    environment={"PYTHONUNBUFFERED": "1"},
    entrypoint=("vllm-router",),
)

CONNECTOR_INIT = Image(
    name="connector-init",
    version=_VERSION,
    summary="Copies Tandem's KV connector into the volume that it is given",
    packages=("busybox-static",),
    wheels=Wheels(_CONNECTOR, dependencies=False, own=("tandem-connector",), compiled=False),
    files=(
        TextFile(
            PurePosixPath("/copy-connector"),
            "#!/bin/sh\n"
            "# Copies the connector's packages into a folder, which an engine has on its PYTHONPATH.\n"
            "set -eu\n"
            f'target="${{1:-{CONNECTOR_PATH}}}"\n'
            'mkdir -p "$target"\n'
            f'cp -R {_CONNECTOR}/. "$target/"\n'
            'echo "event=connector_copied target=$target"\n',
            executable=True,
        ),
    ),
    links={PurePosixPath(f"/usr/bin/{applet}"): "busybox" for applet in ("cp", "ls", "mkdir", "sh")},
    entrypoint=("/copy-connector",),
    published_base="busybox:1.36",
)

ENGINE_CPU = Image(
    name="engine-cpu",
    version=_VERSION,
    summary="vLLM on a CPU, for trying Tandem without GPUs",
    # The libraries are those that the environment's wheels do not bring. vLLM starts lscpu through a shell; the other
    # programs are for launch scripts.
    packages=(*_PYTHON_SYSTEM, "bash", "coreutils", "dash", "libgomp1", "libnuma1", "libstdc++6", "util-linux"),
    venv=ENGINE_VENV,
    # vLLM compiles the function that ranks log-probabilities, also in eager mode; without a compiler the engine would die of
    # the first request for them.
    environment={"TORCHDYNAMO_DISABLE": "1", **unlocked()},
    entrypoint=("python3", "-m", "vllm.entrypoints.openai.api_server"),
    user=0,
)

NGINX = Image(
    name="nginx",
    version=_VERSION,
    summary="Debian's nginx, with the shell and the programs that manifests/samples/nginx-front-door.yaml uses",
    packages=("base-files", "coreutils", "dash", "libc-bin", "nginx"),
    entrypoint=("nginx",),
)

IMAGES: dict[str, Image] = {each.name: each for each in (OPERATOR, FRONT_DOOR, CONNECTOR_INIT, ENGINE_CPU, NGINX)}

WITH_DOCKERFILE = (OPERATOR, FRONT_DOOR, CONNECTOR_INIT)
"""The images that users need in a registry of theirs: engines run stock images."""
