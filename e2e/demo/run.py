# SPDX-License-Identifier: Apache-2.0
"""The demo's steps, in order. Each may be run again: what is there already is taken as it is."""

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from e2e.cluster.interface import Cluster
from e2e.cluster.progress import Progress
from e2e.conversation import SCRIPT, Turn
from e2e.demo.chart import chart_of
from e2e.demo.compare import HEADLINE, forget_conversations, held_otherwise
from e2e.demo.held import HeldConversation, first_difference
from e2e.demo.hold import hold_through
from e2e.demo.plain import remove
from e2e.demo.table import comparison_of, table_of
from e2e.engine.environment import build_environment
from e2e.engine.model import cached_model
from e2e.installation import install_operator, load_images
from e2e.kubectl import Kubectl
from e2e.ready import wait_until_ready
from e2e.sample import cpu_resource


def run_demo(cluster: Cluster, chart: Path | None) -> None:
    """Bring everything up, hold the conversation, print the table, compare, and say what to try next.

    Args:
        cluster: started when it isn't up.
        chart: where the comparison's chart goes; None: don't compare.
    """
    began = time.monotonic()
    console = Console()
    # The cluster first: it asks for root and Go, and nobody shall download gigabytes before hearing that.
    cluster.up()
    environment, model = build_environment(), cached_model()
    load_images(cluster, environment)
    with Progress("installing the operator with Helm"):
        install_operator(cluster)
    kubectl = Kubectl(cluster)
    # Of a demo that was stopped, it would take a core from the engines.
    remove(kubectl)
    resource = cpu_resource(cluster.facts(), environment, model)
    name = resource["metadata"]["name"]
    kubectl.apply(resource)
    wait_until_ready(kubectl, name)
    if chart:
        forget_conversations(kubectl, name)
    _say(console, f"\n{name} is ready, {time.monotonic() - began:.0f} s after the start.\n")
    _say(console, f"A conversation of {len(SCRIPT)} turns through its front door:\n")
    headline = HeldConversation(
        HEADLINE, hold_through(cluster, kubectl, name, HEADLINE, lambda text, turn: _tell(console, text, turn))
    )
    console.print(table_of(headline.rows, "A conversation over prefill (P) and decode (D), protocol Push"))
    _say(console, _explanation(headline))
    if chart:
        _say(console, "\nThe same conversation over other ways to run the model (COMPARE=no leaves this out):")
        conversations = (headline, *held_otherwise(cluster, environment, model))
        console.print()
        console.print(comparison_of(conversations, "Prompt tokens computed and KV moved, turn by turn"))
        chart.parent.mkdir(parents=True, exist_ok=True)
        chart.write_text(chart_of(conversations), encoding="utf-8")
        _say(console, f"{_comparison(conversations)}\nAs a chart: {chart}\n")
        _say(console, f"{name} is back at Push; its engines take a minute to start.")
    _say(console, _next_steps(name))
    _say(console, f"{time.monotonic() - began:.0f} s in all.")


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)


def _tell(console: Console, text: str, turn: Turn) -> None:
    _say(console, f"  [bold]user[/bold]       {_shortened(text)}")
    _say(console, f"  [bold]assistant[/bold]  {_shortened(turn.text)}\n")


def _shortened(text: str, width: int = 66) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."


def _explanation(conversation: HeldConversation) -> str:
    return (
        "The model's weights are random, so its answers mean nothing; all else is real.\n"
        f"After the first turn both engines together computed {conversation.computed_later} of "
        f"{sum(row.turn.prompt_tokens for row in conversation.rows[1:])} prompt tokens: P computes the new words, D the\n"
        "last partial block, and all the rest each had or got from the other, D's answers included."
    )


def _comparison(conversations: Sequence[HeldConversation]) -> str:
    different = first_difference(conversations)
    same = "All gave the same answers." if different is None else f"The answers differ from turn {different} on."
    later = "; ".join(f"{conversation.way}: {conversation.computed_later}" for conversation in conversations)
    return (
        f"{same} Prompt tokens computed after the first turn: {later}.\n"
        "All these numbers are from the engines' own metrics. With NixlPull decode also computes the last token of each\n"
        "prompt, which vLLM doesn't count. Plain vLLM is one engine for everything: nothing need move, and whoever waits for\n"
        "an answer waits for others' prompts too. First-token times are those of one conversation on this machine's cores, on\n"
        "which NIXL's progress threads spin with NixlPull."
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
