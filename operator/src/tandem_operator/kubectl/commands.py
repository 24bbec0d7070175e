# SPDX-License-Identifier: Apache-2.0
"""Each command: read, look, tell."""

import asyncio
import secrets
import sys
from argparse import Namespace
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import yaml

from tandem_operator.api.names import KIND
from tandem_operator.kubectl.benching import benched
from tandem_operator.kubectl.doctoring import look_at_cluster
from tandem_operator.kubectl.draining import drained, prepared
from tandem_operator.kubectl.engine_reading import ask_engines
from tandem_operator.kubectl.exits import Exit, Failed
from tandem_operator.kubectl.reading import Whereabouts, connected, look, resources
from tandem_operator.kubectl.terminal.bench import bench_report
from tandem_operator.kubectl.terminal.bench_progress import bench_progress
from tandem_operator.kubectl.terminal.console import draw, print_json, print_objects
from tandem_operator.kubectl.terminal.doctor import diagnosis_of
from tandem_operator.kubectl.terminal.drain import drain_line, drained_line
from tandem_operator.kubectl.terminal.explain import explanation_tree
from tandem_operator.kubectl.terminal.flows import flows_tables
from tandem_operator.kubectl.terminal.status import status_tree
from tandem_operator.kubectl.terminal.topology import topology_table
from tandem_operator.kubectl.terminal.verify import verify_report
from tandem_operator.kubectl.terminal.verify_progress import verify_progress
from tandem_operator.kubectl.ui.flow_reader import LOOK_EVERY, FlowReader
from tandem_operator.kubectl.ui.server import serving
from tandem_operator.kubectl.verifying import verified
from tandem_operator.kubectl.views.bench_plan import Plan
from tandem_operator.kubectl.views.doctor import diagnose
from tandem_operator.kubectl.views.drain import Drained
from tandem_operator.kubectl.views.explain import explain
from tandem_operator.kubectl.views.render import Unplannable, render, resources_of
from tandem_operator.kubectl.views.seen import Seen
from tandem_operator.kubectl.views.status import resource_view
from tandem_operator.kubectl.views.topology import topology_view
from tandem_operator.kubectl.views.topology_svg import topology_svg
from tandem_operator.plan.types import Defaults

Command = Callable[[Namespace], Coroutine[None, None, Exit]]


def where(options: Namespace) -> Whereabouts:
    """Which cluster and namespace are meant."""
    return Whereabouts(options.kubeconfig, options.context, options.namespace)


async def status(options: Namespace) -> Exit:
    """`status`: as many trees as there are resources."""
    place = where(options)
    async with connected(place) as client:
        found = await resources(client, place.chosen_namespace(), options.names)
        views = [resource_view(await look(client, each)) for each in found]
    if options.output == "json":
        print_json(views)
    elif views:
        draw(*map(status_tree, views))
    else:
        sys.stderr.write(f"no {KIND} in namespace {place.chosen_namespace()}\n")
    return Exit.WELL


async def explain_(options: Namespace) -> Exit:
    """`explain`: why it isn't ready."""
    explanation = explain(await _one(options, with_events=True))
    if options.output == "json":
        print_json(explanation)
    else:
        draw(explanation_tree(explanation))
    return Exit.WELL if explanation.ready else Exit.NOT_WELL


async def doctor(options: Namespace) -> Exit:
    """`doctor`: what is wrong with the cluster."""
    async with connected(where(options)) as client:
        diagnosis = diagnose(await look_at_cluster(client))
    if options.output == "json":
        print_json(diagnosis)
    else:
        draw(diagnosis_of(diagnosis))
    return Exit.WELL if diagnosis.is_well else Exit.NOT_WELL


async def topology(options: Namespace) -> Exit:
    """`topology`: who knows whom, and what went between them if that is asked for."""
    place = where(options)
    async with connected(place) as client:
        (found,) = await resources(client, place.chosen_namespace(), [options.name])
        seen = await look(client, found)
        told = await ask_engines(client, found["metadata"]["namespace"], seen.pods) if options.bytes else None
    view = topology_view(seen, told)
    match options.output:
        case "json":
            print_json(view)
        case "svg":
            sys.stdout.write(topology_svg(view))
        case _:
            draw(topology_table(view))
    return Exit.WELL


async def ui(options: Namespace) -> Exit:
    """`ui`: serve the page until interrupted, or tell once what it would show."""
    if options.output == "json" and not options.once:
        raise Failed(Exit.USAGE, "--output json is for --once; a page that is served has its state in JSON at /state")
    place = where(options)
    async with connected(place) as client:
        reader = FlowReader(client, place.chosen_namespace(), options.name)
        view = await reader.current()
        if not options.once:
            async with serving(reader.current, options.port) as url:
                sys.stdout.write(f"{url} shows {view.namespace}/{view.name}, to this machine only; Ctrl-C ends it\n")
                sys.stdout.flush()
                await asyncio.Event().wait()
        await asyncio.sleep(LOOK_EVERY)
        view = await reader.current()
    if options.output == "json":
        print_json(view)
    else:
        draw(flows_tables(view))
    return Exit.WELL


async def bench(options: Namespace) -> Exit:
    """`bench`: hold conversations, and tell how long tokens took."""
    plan = Plan(
        seed=secrets.randbits(48) if options.seed is None else options.seed,
        conversations=options.conversations,
        turns=options.turns,
        first_words=options.first_words,
        words=options.words,
        max_tokens=options.max_tokens,
    )
    place = where(options)
    async with connected(place) as client:
        with bench_progress(plan) as told:
            view = await benched(
                client, place, options.name, plan, url=options.url, patience=options.timeout, told=told
            )
    if options.output == "json":
        print_json(view)
    else:
        draw(bench_report(view))
    return Exit.WELL if view.is_well else Exit.NOT_WELL


async def verify(options: Namespace) -> Exit:
    """`verify`: have engines conversed with, and tell what came of it."""
    place = where(options)
    async with connected(place) as client:
        with verify_progress() as told:
            view = await verified(client, place, options.name, patience=options.timeout, told=told)
    if options.output == "json":
        print_json(view)
    else:
        draw(*verify_report(view))
    return Exit.WELL if view.is_well else Exit.NOT_WELL


async def drain(options: Namespace) -> Exit:
    """`drain`: evict engines, one after the other."""
    place = where(options)
    done = []
    async with connected(place) as client:
        for pod in options.pods:
            plan, uid = await prepared(client, place.chosen_namespace(), pod)
            if plan.problem and not options.force:
                done.append(Drained(drain=plan, done=False, words=plan.problem))
            elif options.dry_run:
                done.append(Drained(drain=plan, done=True, words="would be evicted"))
            else:
                if options.output == "text":
                    draw(drain_line(plan))
                patience = options.timeout if options.wait else None
                done.append(await drained(client, plan, uid, patience=patience))
            if options.output == "text":
                draw(drained_line(done[-1]))
            if not done[-1].done:
                break
    if options.output == "json":
        print_json(done)
    return Exit.WELL if all(each.done for each in done) else Exit.NOT_WELL


async def render_(options: Namespace) -> Exit:
    """`render`: what would be created, without a cluster."""
    try:
        documents = list(yaml.safe_load_all(_text(options.filename)))
        found = list(resources_of(documents, options.namespace or "default"))
        defaults = Defaults(options.front_door_image, options.connector_image)
        rendered = [each for resource in found for each in render(resource, defaults, datetime.now(UTC))]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, Unplannable) as error:
        raise Failed(Exit.USAGE, f"{options.filename}: {error}") from error
    if not found:
        raise Failed(Exit.USAGE, f"{options.filename}: there is no {KIND} in it")
    print_objects(rendered, options.output)
    return Exit.WELL


def _text(filename: str) -> str:
    return sys.stdin.read() if filename == "-" else Path(filename).read_text()


async def _one(options: Namespace, *, with_events: bool = False) -> Seen:
    place = where(options)
    async with connected(place) as client:
        (found,) = await resources(client, place.chosen_namespace(), [options.name])
        return await look(client, found, with_events=with_events)


BY_NAME: Final[dict[str, Command]] = {
    "status": status,
    "explain": explain_,
    "topology": topology,
    "ui": ui,
    "bench": bench,
    "doctor": doctor,
    "verify": verify,
    "drain": drain,
    "render": render_,
}
"""What `arguments.COMMANDS` names."""
