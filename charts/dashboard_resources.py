# SPDX-License-Identifier: Apache-2.0
"""The dashboard of resources and the operator."""

from typing import Final

from charts.grafana import Dashboard, Panel, Query, Row
from charts.panel_queries import ENGINES, NAME, by, of_resource

RESOURCES: Final = Dashboard(
    uid="tandem-resources",
    title="Tandem / Resources and operator",
    description="Readiness, topology, drains, roll-outs and proof that KV moves. Needs the chart's serviceMonitor.",
    namespaces="label_values(tandem_resource_condition, resource_namespace)",
    resources='label_values(tandem_resource_condition{resource_namespace=~"$namespace"}, resource_name)',
    rows=(
        Row(
            "Readiness",
            (
                Panel(
                    "Not ready, not available or degraded",
                    "Empty when all is well; the series are called after the condition and its reason.",
                    "short",
                    tuple(
                        Query(
                            of_resource(
                                "tandem_resource_condition", "type, reason", f'type="{kind}", status="{status}"'
                            ),
                            f"{NAME} {{{{type}}}}: {{{{reason}}}}",
                        )
                        for kind, status in (("Ready", "False"), ("Available", "False"), ("Degraded", "True"))
                    ),
                ),
                Panel(
                    "Engines that are ready",
                    "Pods that take requests, by role.",
                    "short",
                    (Query(of_resource("tandem_resource_engines", "role", 'state="ready"'), f"{NAME} {{{{role}}}}"),),
                ),
                Panel(
                    "Numbers of engines that can't be had",
                    "Which bound is in the way: ratio, GPU budget, or a scaler's own bounds.",
                    "short",
                    (
                        Query(
                            of_resource("tandem_resource_condition", "reason", 'type="ScalingLimited", status="True"'),
                            f"{NAME}: {{{{reason}}}}",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "Topology",
            (
                Panel(
                    "Age of the peer tables",
                    "Since the operator last brought them up to date; within settings.resync where nothing happens.",
                    "s",
                    (Query(f"time() - {of_resource('tandem_resource_reconciled_timestamp_seconds')}", NAME),),
                ),
                Panel(
                    "Changes of the topology",
                    "Highest generation of the engines' peer tables.",
                    "short",
                    (Query(of_resource("tandem_resource_topology_generation"), NAME),),
                ),
                Panel(
                    "Pairs, and peers that are connected",
                    "Each pair is a peer of two engines; engines that drain have their heir besides.",
                    "short",
                    (
                        Query(of_resource("tandem_resource_topology_pairs"), f"{NAME} pairs"),
                        Query(
                            by("tandem_peers_connected", "namespace, tandem_dev_resource"),
                            "{{namespace}}/{{tandem_dev_resource}} connected",
                        ),
                        Query(
                            by("tandem_peers_refused", "namespace, tandem_dev_resource"),
                            "{{namespace}}/{{tandem_dev_resource}} refused",
                        ),
                    ),
                ),
                Panel(
                    "Peer tables that engines did not take up",
                    "Malformed, conflicting or of a former generation.",
                    "short",
                    (Query(by("tandem_peer_tables_total", "what", f'{ENGINES}, what!="accepted"'), "{{what}}"),),
                ),
            ),
        ),
        Row(
            "Drains and roll-outs",
            (
                Panel(
                    "Engines that are ending",
                    "Pods that are being deleted, as the operator sees them, and engines that say so of themselves.",
                    "short",
                    (
                        Query(
                            of_resource("tandem_resource_engines", "role", 'state="draining"'),
                            f"{NAME} {{{{role}}}}",
                        ),
                        Query(by("tandem_draining", "tandem_dev_role"), "{{tandem_dev_role}} engines that drain"),
                        Query(by("tandem_drained", "tandem_dev_role"), "{{tandem_dev_role}} of them done"),
                    ),
                ),
                Panel(
                    "Engines of the revision that the spec asks for",
                    "All of a role's, unless a roll-out is under way or was rolled back.",
                    "short",
                    tuple(
                        Query(
                            of_resource("tandem_resource_engines", "role", f'state="{state}"'),
                            f"{NAME} {{{{role}}}} {state}",
                        )
                        for state in ("existing", "updated")
                    ),
                ),
                Panel(
                    "What is in progress",
                    "Starts, scale-downs and roll-outs.",
                    "short",
                    (
                        Query(
                            of_resource("tandem_resource_condition", "reason", 'type="Progressing", status="True"'),
                            f"{NAME}: {{{{reason}}}}",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "Proof that KV moves",
            (
                Panel(
                    "Fabric and verification",
                    "Everything that isn't verified, or not over what was asked for, with its reason.",
                    "short",
                    (
                        Query(
                            of_resource(
                                "tandem_resource_condition",
                                "type, reason",
                                'type=~"FabricActive|KVTransferVerified", status!="True"',
                            ),
                            f"{NAME} {{{{type}}}}: {{{{reason}}}}",
                        ),
                    ),
                ),
                Panel(
                    "Conversations, by what they showed",
                    "Of all resources. Several failures of a pair in succession put it into quarantine.",
                    "reqps",
                    (
                        Query(
                            "sum by (standing) (rate(tandem_verifications_total[$__rate_interval]))",
                            "{{standing}}",
                        ),
                    ),
                ),
                Panel(
                    "Quarantine",
                    "Engines out of use, and blocks that peers which don't answer may still write into.",
                    "short",
                    (
                        Query(of_resource("tandem_resource_quarantined_engines"), f"{NAME} engines"),
                        Query(
                            by("tandem_blocks_quarantined", "namespace, tandem_dev_resource"),
                            "{{namespace}}/{{tandem_dev_resource}} blocks",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "Operator",
            (
                Panel(
                    "Leaders and resources",
                    "One replica leads; every replica knows all resources.",
                    "short",
                    (
                        Query("sum by (namespace) (tandem_leader)", "leaders in {{namespace}}"),
                        Query("max by (namespace) (tandem_resources)", "resources known in {{namespace}}"),
                        Query("max by (namespace) (tandem_queue_depth)", "resources that wait in {{namespace}}"),
                    ),
                ),
                Panel(
                    "How long a change waits, and a look takes",
                    "95 of 100 are shorter.",
                    "s",
                    tuple(
                        Query(
                            f"histogram_quantile(0.95, sum by (le) (rate({metric}_bucket[$__rate_interval])))", legend
                        )
                        for metric, legend in (
                            ("tandem_queue_latency_seconds", "waits"),
                            ("tandem_reconcile_duration_seconds", "takes"),
                        )
                    ),
                ),
                Panel(
                    "What fails",
                    "Requests that the API server did not fulfil, and reconciles that an error stopped.",
                    "reqps",
                    (
                        Query(
                            "sum by (method, resource, status) (rate(tandem_api_errors_total[$__rate_interval]))",
                            "{{method}} {{resource}}: {{status}}",
                        ),
                        Query(
                            "sum by (error) (rate(tandem_reconcile_failures_total[$__rate_interval]))",
                            "{{error}}",
                        ),
                    ),
                ),
            ),
        ),
    ),
)
