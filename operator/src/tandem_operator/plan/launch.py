# SPDX-License-Identifier: Apache-2.0
"""The script that starts an engine, rendered from its template."""

import shlex
from functools import cache
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from tandem_connector.contract.environment import CONNECTOR_PATH, HTTP_PORT
from tandem_operator.plan.resolved import Pool, Resolved
from tandem_operator.plan.transfer import transfer_arguments

LAUNCH_DIRECTORY: Final = "/etc/tandem/launch"
LAUNCH_SCRIPT: Final = "launch.sh"
MODELS_PATH: Final = "/models"
"""Where a volume with the model's files is mounted."""


@cache
def _template(name: str) -> Template:
    environment = Environment(
        loader=PackageLoader("tandem_operator.plan"),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - shell, not HTML: every value goes through the filter `shell`
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["shell"] = lambda value: shlex.quote(str(value))
    return environment.get_template(name)


def launch_script(resolved: Resolved, pool: Pool) -> str:
    """A POSIX shell script that becomes the engine's process.

    It needs the environment of `engines.engine_environment`, and `python3` with vLLM on the PATH.
    """
    model = resolved.model
    return _template("launch.sh.j2").render(
        connector_path=CONNECTOR_PATH,
        arguments=pool.arguments,
        model=MODELS_PATH if model.volume else model.name,
        revision=None if model.volume else model.revision,
        served_name=model.served_name,
        tensor=pool.tensor,
        data=pool.data,
        block_size=resolved.block_size,
        shutdown_seconds=pool.ending.shutdown,
        transfer=transfer_arguments(resolved),
        port=HTTP_PORT,
    )
