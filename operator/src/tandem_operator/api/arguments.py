# SPDX-License-Identifier: Apache-2.0
"""Arguments and environment variables that Tandem sets itself or can't take, and the rules that keep arguments out of `args`."""

from typing import Final

from tandem_connector.contract import environment as contract
from tandem_operator.api.rule import Rule, cel_map, cel_text

_FIXED: Final = "Tandem needs it as it is"
_ONE_SERVER: Final = "a pod's ranks are behind its one server; use only parallelism.data of the role"
_ALL_HERE: Final = "a pod's ranks are all in it; use parallelism.data and replicas of the role"

OWNED_ENGINE_ARGUMENTS: Final = {
    "--api-key": "arguments can be read by all who see the resource; set VLLM_API_KEY in spec.engine.env, from a Secret",
    "--block-size": "use spec.engine.blockSize",
    "--config": "use args, env and the fields of the resource",
    "--data-parallel-address": _ALL_HERE,
    "--data-parallel-backend": _ALL_HERE,
    "--data-parallel-external-lb": _ONE_SERVER,
    "--data-parallel-hybrid-lb": _ONE_SERVER,
    "--data-parallel-multi-port-external-lb": _ONE_SERVER,
    "--data-parallel-rank": _ONE_SERVER,
    "--data-parallel-rpc-port": _ALL_HERE,
    "--data-parallel-size": "use parallelism.data of the role",
    "--data-parallel-size-local": _ALL_HERE,
    "--data-parallel-start-rank": _ALL_HERE,
    "--enable-elastic-ep": "a pod has the ranks that it began with; use parallelism.data of the role",
    "--enable-prefix-caching": "prefix caching is always on",
    "--headless": "every engine answers requests",
    "--host": _FIXED,
    "--kv-transfer-config": "use spec.transfer",
    "--model": "use spec.model.name",
    "--no-enable-prefix-caching": "the exchange of KV needs prefix caching",
    "--pipeline-parallel-size": "pipeline parallelism is not supported yet",
    "--port": _FIXED,
    "--prefix-caching-hash-algo": "both roles need the same algorithm",
    "--revision": "use spec.model.revision",
    "--served-model-name": "use spec.model.servedName",
    "--shutdown-timeout": "use podTemplate.spec.terminationGracePeriodSeconds of the role",
    "--ssl-certfile": "engines speak plain HTTP inside the cluster",
    "--ssl-keyfile": "engines speak plain HTTP inside the cluster",
    "--tensor-parallel-size": "use parallelism.tensor of the role",
    "--uds": "engines listen on a port",
    "-dp": "use parallelism.data of the role",
    "-dpa": _ALL_HERE,
    "-dpb": _ALL_HERE,
    "-dpe": _ONE_SERVER,
    "-dph": _ONE_SERVER,
    "-dpl": _ALL_HERE,
    "-dpm": _ONE_SERVER,
    "-dpn": _ONE_SERVER,
    "-dpp": _ALL_HERE,
    "-dpr": _ALL_HERE,
    "-pp": "pipeline parallelism is not supported yet",
    "-tp": "use parallelism.tensor of the role",
}
"""Arguments of vLLM, and what to use instead."""

OWNED_FRONT_DOOR_ARGUMENTS: Final = {
    "--decode": "engines are found by their labels",
    "--decode-selector": "engines are found by their labels",
    "--host": _FIXED,
    "--intra-node-data-parallel-size": "use parallelism.data of spec.decode",
    "--kv-connector": "use spec.transfer.protocol",
    "--policy": "use spec.frontDoor.policy",
    "--port": _FIXED,
    "--prefill": "engines are found by their labels",
    "--prefill-selector": "engines are found by their labels",
    "--prometheus-host": _FIXED,
    "--prometheus-port": _FIXED,
    "--selector": "engines are found by their labels",
    "--service-discovery": "engines are found by their labels",
    "--service-discovery-namespace": "engines are found by their labels",
    "--service-discovery-port": _FIXED,
    "--vllm-pd-disaggregation": "use spec.transfer.protocol",
    "--worker-urls": "engines are found by their labels",
}
"""Arguments of vllm-router, and what to use instead."""

OWNED_VARIABLES: Final = frozenset(
    {
        "PYTHONHASHSEED",
        contract.DATA_PARALLEL,
        contract.ENGINE_ID,
        contract.KEYS_FILE,
        contract.PEERS_FILE,
        contract.POD_UID,
        contract.ROLE,
        "VLLM_NIXL_SIDE_CHANNEL_HOST",
        "VLLM_NIXL_SIDE_CHANNEL_PORT",
    }
)
"""Environment variables of engines. `PYTHONHASHSEED=0` may be set, since it is what Tandem sets."""


def _without(owned: dict[str, str]) -> list[Rule]:
    names = "[" + ", ".join(cel_text(name) for name in owned) + "]"
    # vLLM takes `_` for `-` in names of options and `--option.key value` for options that are JSON; argparse takes the
    # beginning of a long option for the whole.
    option = "a.split('=')[0].split('.')[0].replace('_', '-')"
    begins_owned = f"o.startsWith({option})"
    # A list of one gives the option a name, so that it is cut out once and not for each owned one: the API server limits
    # what a rule may cost when it runs.
    is_owned = f"a.startsWith('-') && [{option}].exists(n, n.size() > 2 && {names}.exists(o, o.startsWith(n)))"
    refused = f"self.args.filter(a, {is_owned})"
    return [
        Rule(
            holds=f"!has(self.args) || !self.args.exists(a, {is_owned})",
            message="must not contain {argument}: {remedy}",
            at=".args",
            values={
                "argument": f"{refused}[0]",
                "remedy": f"{refused}.map(a, {cel_map(owned)}[{names}.filter(o, {begins_owned})[0]])[0]",
            },
        )
    ]


ENGINE_ARGUMENT_RULES: Final = _without(OWNED_ENGINE_ARGUMENTS)
"""For a model with an `args` list for vLLM."""
FRONT_DOOR_ARGUMENT_RULES: Final = _without(OWNED_FRONT_DOOR_ARGUMENTS)
"""For a model with an `args` list for vllm-router."""
