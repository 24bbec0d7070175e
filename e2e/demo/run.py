# SPDX-License-Identifier: Apache-2.0
"""The demo's steps, in order. Each may be run again: what is there already is taken as it is."""

import time
import uuid

from rich.console import Console

from e2e.cluster.interface import Cluster
from e2e.cluster.progress import Progress
from e2e.conversation import SCRIPT, Conversation
from e2e.demo.table import Row, table_of
from e2e.engine.environment import build_environment
from e2e.engine.model import MODEL_NAME, cached_model
from e2e.installation import (
    condition,
    engine_pods,
    front_door,
    install_operator,
    is_ready,
    load_images,
    pools_account,
    settled_account,
)
from e2e.kubectl import Kubectl, Manifest
from e2e.sample import cpu_resource

READY_WITHIN = 900.0
"""Seconds for two engines to start on a slow machine."""


class NotReadyError(Exception):
    """Something did not become ready in time. The text says what it was like at the end."""


def run_demo(cluster: Cluster) -> None:
    """Bring everything up, hold the conversation, print the table and what to try next."""
    began = time.monotonic()
    console = Console()
    # The cluster first: it asks for root and Go, and nobody shall download gigabytes before hearing that.
    cluster.up()
    environment, model = build_environment(), cached_model()
    load_images(cluster, environment)
    with Progress("installing the operator with Helm"):
        install_operator(cluster)
    kubectl = Kubectl(cluster)
    resource = cpu_resource(cluster.facts(), environment, model)
    name = resource["metadata"]["name"]
    kubectl.apply(resource)
    wait_until_ready(kubectl, name)
    console.print(f"\n{name} is ready, {time.monotonic() - began:.0f} s after the start.\n")
    rows = _talk(cluster, kubectl, name, console)
    console.print(table_of(rows, "A conversation over prefill (P) and decode (D), protocol Push"))
    console.print(_explanation(rows), highlight=False, soft_wrap=True)
    console.print(_next_steps(name), highlight=False, soft_wrap=True)


def wait_until_ready(kubectl: Kubectl, name: str, within: float = READY_WITHIN) -> Manifest:
    """The resource once the operator says Ready; shows meanwhile what is being waited for.

    Raises:
        NotReadyError: it was not within so many seconds.
    """
    with Progress(f"waiting for {name}") as progress:
        while True:
            resource = kubectl.get("pdi", name) or {}
            if resource and is_ready(resource):
                return resource
            if progress.elapsed > within:
                raise NotReadyError(f"{name} is not ready after {within:.0f} s: {_standing(kubectl, name, resource)}")
            progress.update(_standing(kubectl, name, resource))
            time.sleep(1.0)


def _standing(kubectl: Kubectl, name: str, resource: Manifest) -> str:
    states = {pod["metadata"]["name"]: _pod_state(pod) for pod in engine_pods(kubectl, name)}
    pods = ", ".join(f"{pod} {state}" for pod, state in states.items())
    if "starting" in states.values():
        return pods
    # Nothing starts: what the operator says is what matters.
    _, reason, message = condition(resource, "Ready")
    return "; ".join(part for part in (message or reason, pods) if part)


def _pod_state(pod: Manifest) -> str:
    for status in pod["status"].get("containerStatuses", []):
        if waiting := status.get("state", {}).get("waiting"):
            return str(waiting.get("reason", "waiting"))
        if status.get("ready"):
            return "ready"
        if "running" in status.get("state", {}):
            return "starting"
    return str(pod["status"].get("phase", "unknown")).lower()


def _talk(cluster: Cluster, kubectl: Kubectl, name: str, console: Console) -> list[Row]:
    rows = []
    with front_door(cluster, kubectl, name) as url:
        console.print(f"A conversation of {len(SCRIPT)} turns through {url}:\n")
        conversation = Conversation(url, MODEL_NAME, session=uuid.uuid4().hex)
        account = pools_account(kubectl, name)
        for number, text in enumerate(SCRIPT, start=1):
            with Progress(f"turn {number}"):
                turn = conversation.say(text)
            console.print(f"  [bold]user[/bold]       {_shortened(text)}", highlight=False, soft_wrap=True)
            console.print(f"  [bold]assistant[/bold]  {_shortened(turn.text)}\n", highlight=False, soft_wrap=True)
            now = settled_account(kubectl, name, account, turn.prompt_tokens)
            rows.append(Row(turn, now.since(account)))
            account = now
        conversation.close()
    return rows


def _shortened(text: str, width: int = 66) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."


def _explanation(rows: list[Row]) -> str:
    computed = [row.account.prefill.computed + row.account.decode.computed for row in rows]
    return (
        "The model's weights are random, so its answers mean nothing; all else is real.\n"
        f"After the first turn both engines together computed {sum(computed[1:])} of "
        f"{sum(row.turn.prompt_tokens for row in rows[1:])} prompt tokens: P computes the new words, D the\n"
        "last partial block, and all the rest each had or got from the other, D's answers included."
    )


def _next_steps(name: str) -> str:
    kubectl = ".venv/bin/python -m e2e.cluster kubectl"
    return f"""
What to try next:
  {kubectl} get pdi,pods,svc
  {kubectl} get pod {name}-decode-0 -o jsonpath='{{.metadata.annotations.tandem\\.dev/peers}}{{"\\n"}}'
  {kubectl} patch pdi {name} --type merge -p '{{"spec":{{"decode":{{"replicas":2}}}}}}'
  {kubectl} delete pdi {name}
  make demo-down
"""
