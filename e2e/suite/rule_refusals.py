# SPDX-License-Identifier: Apache-2.0
"""What the rules of the definition refuse, in their own words."""

from typing import Final

from e2e.suite.refusals import CPU, PULL, Change, Refusal, accelerator, spec, tensor, volume
from e2e.suite.rollout_refusals import ROLLOUT_REFUSALS
from e2e.suite.scaling_refusals import SCALING_REFUSALS


def _ranks(role: str, data: int, gpus: int = 4) -> dict[str, Change]:
    """The part of `spec` with so many data-parallel ranks of so many GPUs in each of the role's pods."""
    return {role: {"parallelism": {"tensor": gpus, "data": data}}}


RULE_REFUSALS: Final = (
    Refusal(
        "a name too long for its children",
        "metadata",
        "the name must have at most 44 characters, since names of children are made from it",
        {"metadata": {"name": "a" * 45}},
        {"metadata": {"name": "a" * 44}},
    ),
    Refusal(
        "a name that no Service can have",
        "metadata",
        "the name must start with a letter and have only lower-case letters, digits and '-', since Services are named after it",
        {"metadata": {"name": "3b.qwen"}},
        {"metadata": {"name": "qwen-3b"}},
    ),
    Refusal(
        "two sources of the model",
        "spec.model.source",
        "set only one of huggingFace and volume",
        spec(model={"source": {"huggingFace": {}, "volume": {"claimName": "weights"}}}),
        spec(model={"source": {"volume": {"claimName": "weights"}}}),
    ),
    Refusal(
        "a claim and a folder of the host",
        "spec.model.source.volume",
        "set exactly one of claimName and hostPath",
        volume(claimName="weights", hostPath="/models"),
        volume(claimName="weights"),
    ),
    Refusal(
        "a volume that is neither a claim nor a folder of the host",
        "spec.model.source.volume",
        "set exactly one of claimName and hostPath",
        volume(),
        volume(hostPath="/models"),
    ),
    Refusal(
        "a folder of the host with a way up",
        "spec.model.source.volume.hostPath",
        "must not contain '..'; write the folder's path in full",
        volume(hostPath="/models/../etc"),
        volume(hostPath="/models/..etc"),
    ),
    Refusal(
        "a folder outside the volume",
        "spec.model.source.volume.subPath",
        "must be a path inside the volume, without a leading '/' and without '..'",
        volume(claimName="weights", subPath="qwen/../../etc"),
        volume(claimName="weights", subPath="qwen/..3"),
    ),
    Refusal(
        "an absolute folder of the volume",
        "spec.model.source.volume.subPath",
        "must be a path inside the volume, without a leading '/' and without '..'",
        volume(claimName="weights", subPath="/qwen"),
        volume(claimName="weights", subPath="qwen/3"),
    ),
    *(
        Refusal(
            f"a variable with two values in spec.{part}",
            f"spec.{part}.env[0]",
            "set only one of value and valueFrom",
            spec(
                **{
                    part: {
                        "env": [{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
                    }
                }
            ),
            spec(**{part: {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]}}),
        )
        for part in ("engine", "prefill", "decode")
    ),
    *(
        Refusal(
            f"a variable that Tandem sets in spec.{part}",
            f"spec.{part}.env[0]",
            f"only Tandem sets {name}; remove the variable",
            spec(**{part: {"env": [{"name": name, "value": "1"}]}}),
            spec(**{part: {"env": [{"name": "PYTHONHASHSEED", "value": "0"}]}}),
        )
        for part, name in (
            ("engine", "PYTHONHASHSEED"),
            ("prefill", "VLLM_NIXL_SIDE_CHANNEL_PORT"),
            ("decode", "TANDEM_ENGINE_ID"),
        )
    ),
    *(
        Refusal(
            f"devices among the {field} of spec.{part}",
            f"spec.{part}.resources.{field}",
            "may have only cpu, memory and ephemeral-storage; use spec.accelerator for GPUs, EFA and huge pages, "
            "podTemplate for others",
            spec(**{part: {"resources": {field: {"cpu": 8, "nvidia.com/gpu": "8"}}}}),
            spec(**{part: {"resources": {field: {"cpu": 8, "memory": "64Gi", "ephemeral-storage": "10Gi"}}}}),
        )
        for part in ("prefill", "decode", "frontDoor")
        for field in ("requests", "limits")
    ),
    *(
        Refusal(
            f"{wrong} in the arguments of spec.{part}",
            f"spec.{part}.args",
            f"must not contain {wrong}: {remedy}",
            spec(**{part: {"args": ["--max-num-seqs=8", wrong, "8"]}}),
            spec(**{part: {"args": ["--max-num-seqs=8", right, "8"]}}),
        )
        for part, wrong, right, remedy in (
            ("engine", "--tensor-parallel-size=8", "--max-model-len=8", "use parallelism.tensor of the role"),
            (
                "engine",
                "--api-key=hush",
                "--max-model-len=8",
                "arguments can be read by all who see the resource; set VLLM_API_KEY in spec.engine.env, from a Secret",
            ),
            ("engine", "-tp", "-q", "use parallelism.tensor of the role"),
            ("engine", "-dp=2", "-ep", "use parallelism.data of the role"),
            ("prefill", "--data-parallel-size", "--enable-expert-parallel", "use parallelism.data of the role"),
            (
                "decode",
                "--data-parallel-external-lb",
                "--seed=2",
                "a pod's ranks are behind its one server; use only parallelism.data of the role",
            ),
            (
                "engine",
                "--data-parallel-size-local=1",
                "--max-num-batched-tokens=1",
                "a pod's ranks are all in it; use parallelism.data and replicas of the role",
            ),
            ("engine", "--kv-transfer-config.kv_role=kv_both", "--compilation-config.level=3", "use spec.transfer"),
            ("engine", "--block_size", "--max_num_batched_tokens", "use spec.engine.blockSize"),
            ("engine", "--tensor-parallel", "--tensor-parallel-size-of-mine", "use parallelism.tensor of the role"),
            ("prefill", "--port", "--uvicorn-log-level", "Tandem needs it as it is"),
            (
                "prefill",
                "--no-enable-prefix-caching",
                "--no-enable-chunked-prefill",
                "the exchange of KV needs prefix caching",
            ),
            ("decode", "--prefix-caching-hash-algo=sha256_cbor", "--seed=1", "both roles need the same algorithm"),
            ("decode", "--served-model-name", "--model-loader-extra-config", "use spec.model.servedName"),
            ("frontDoor", "--policy=random", "--prefill-policy=random", "use spec.frontDoor.policy"),
            ("frontDoor", "--service-discovery", "--request-timeout-secs", "engines are found by their labels"),
            (
                "frontDoor",
                "--intra-node-data-parallel-size=2",
                "--max-concurrent-requests=2",
                "use parallelism.data of spec.decode",
            ),
        )
    ),
    Refusal(
        "EFA where there is none",
        "spec.accelerator.efa.perPod",
        "instance type none has no EFA; remove the field, or choose an instance type with EFA",
        spec(accelerator={**CPU, "efa": {"perPod": 1}}),
        spec(accelerator={**CPU, "efa": {"perPod": 0}}),
    ),
    Refusal(
        "more EFA devices than a node has",
        "spec.accelerator.efa.perPod",
        "17 EFA devices are more than the 16 of a p5en.48xlarge node; ask for fewer, or remove the field",
        accelerator(efa={"perPod": 17}),
        accelerator(efa={"perPod": 16}),
    ),
    Refusal(
        "more EFA devices than a node of HyperPod has",
        "spec.accelerator.efa.perPod",
        "33 EFA devices are more than the 32 of a ml.p5.48xlarge node; ask for fewer, or remove the field",
        accelerator(instanceType="ml.p5.48xlarge", efa={"perPod": 33}),
        accelerator(instanceType="ml.p5.48xlarge", efa={"perPod": 32}),
    ),
    Refusal(
        "more GPUs than a node of HyperPod has",
        "spec.prefill.parallelism.tensor",
        "2 GPUs are more than the 1 of a ml.p5.4xlarge node; an engine cannot span nodes yet",
        spec(
            accelerator={"instanceType": "ml.p5.4xlarge"},
            prefill={"parallelism": {"tensor": 2}},
            transfer=PULL,
            decode={"parallelism": {"tensor": 1}},
        ),
        spec(accelerator={"instanceType": "ml.p5.4xlarge"}, **tensor(1, 1)),
    ),
    Refusal(
        "a claim from nowhere",
        "spec.accelerator.resourceClaims[0]",
        "set exactly one of resourceClaimName and resourceClaimTemplateName",
        accelerator(resourceClaims=[{"name": "devices"}]),
        accelerator(resourceClaims=[{"name": "devices", "resourceClaimTemplateName": "efas"}]),
    ),
    Refusal(
        "a claim and a template",
        "spec.accelerator.resourceClaims[0]",
        "set exactly one of resourceClaimName and resourceClaimTemplateName",
        accelerator(resourceClaims=[{"name": "a", "resourceClaimName": "b", "resourceClaimTemplateName": "c"}]),
        accelerator(resourceClaims=[{"name": "a", "resourceClaimName": "b"}]),
    ),
    Refusal(
        "a caller of engines who is nobody",
        "spec.networkPolicy.allowHttpFrom[0]",
        "says nobody; set podSelector, namespaceSelector or ipBlock",
        spec(networkPolicy={"allowHttpFrom": [{}]}),
        spec(networkPolicy={"allowHttpFrom": [{"namespaceSelector": {}}]}),
    ),
    Refusal(
        "a caller of engines who is both a pod and an address",
        "spec.networkPolicy.allowHttpFrom[0].ipBlock",
        "must be alone; put the selectors into an entry of their own",
        spec(networkPolicy={"allowHttpFrom": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]}),
        spec(networkPolicy={"allowHttpFrom": [{"podSelector": {}}, {"ipBlock": {"cidr": "10.0.0.0/8"}}]}),
    ),
    *(
        Refusal(
            f"pipeline parallelism of {role}",
            f"spec.{role}.parallelism.pipeline",
            "pipeline parallelism is not supported yet; raise tensor instead, and remove the field",
            spec(**{role: {"parallelism": {"pipeline": 2}}}),
            spec(**{role: {"parallelism": {"pipeline": 1}}}),
        )
        for role in ("prefill", "decode")
    ),
    Refusal(
        "GPUs where there are none",
        "spec.accelerator.gpusPerPod",
        "instance type none has no GPUs; remove the field, or choose an instance type with GPUs",
        spec(accelerator={**CPU, "gpusPerPod": 1}),
        spec(accelerator={**CPU, "gpusPerPod": 0}),
    ),
    Refusal(
        "huge pages that are not a multiple of their size",
        "spec.accelerator.hugepages2Mi",
        "must be a multiple of 2Mi, for example 5120Mi; remove the field for none",
        accelerator(hugepages2Mi="5121Mi"),
        accelerator(hugepages2Mi="5120Mi"),
    ),
    Refusal(
        "huge pages of a fraction of a byte",
        "spec.accelerator.hugepages2Mi",
        "must be a multiple of 2Mi, for example 5120Mi; remove the field for none",
        accelerator(hugepages2Mi="1m"),
        accelerator(hugepages2Mi="2Gi"),
    ),
    Refusal(
        "no huge pages, as a number",
        "spec.accelerator.hugepages2Mi",
        "must be a multiple of 2Mi, for example 5120Mi; remove the field for none",
        accelerator(hugepages2Mi="0"),
        accelerator(hugepages2Mi="2097152"),
    ),
    Refusal(
        "more huge pages than a node has",
        "spec.accelerator.hugepages2Mi",
        "a node of instance type p5en.48xlarge has at most 42242Mi of huge pages; ask for less, or remove the field",
        accelerator(hugepages2Mi="42244Mi"),
        accelerator(hugepages2Mi="42242Mi"),
    ),
    Refusal(
        "huge pages without an accelerator",
        "spec.accelerator.hugepages2Mi",
        "a node of instance type none has at most 0Mi of huge pages; ask for less, or remove the field",
        spec(accelerator={**CPU, "hugepages2Mi": "2Mi"}),
        spec(accelerator=CPU),
    ),
    *(
        Refusal(
            f"a transfer's {field} that vLLM's connector does not know",
            f"spec.transfer.{field}",
            "has no effect with spec.transfer.protocol: NixlPull; remove the field, or set that to Push",
            spec(transfer={"protocol": "NixlPull", "reverse": "Disabled", field: value}),
            spec(transfer={"protocol": "Push", "reverse": "Disabled", field: value}),
        )
        for field, value in {
            "disaggregateAboveTokens": 0,
            "peersPerDecode": 1,
            "deadline": "20s",
            "landingFraction": "0%",
            "minBlocks": 1,
            "auth": {"secretRef": {"name": "keys", "key": "chat"}},
        }.items()
    ),
    *(
        Refusal(
            f"a deadline {why}",
            "spec.transfer.deadline",
            "must be above 0s and at most 30m, for example 20s",
            spec(transfer={"deadline": wrong}),
            spec(transfer={"deadline": right}),
        )
        for why, wrong, right in (
            ("of nothing", "0s", "1ms"),
            ("of nothing in two parts", "0h0.0m", "0h0.1m"),
            ("longer than anything takes", "30m1ms", "30m"),
        )
    ),
    *(
        Refusal(
            f"conversations {why}",
            "spec.verification.period",
            "must be from 30s to 24h, for example 10m",
            spec(verification={"period": wrong}),
            spec(verification={"period": right}),
        )
        for why, wrong, right in (
            ("without a pause", "29999ms", "30s"),
            ("that are as good as none", "24h0m1s", "24h"),
        )
    ),
    *(
        Refusal(
            f"a drain {why}",
            "spec.scaling.drain.timeout",
            "must be from 5s to 1h, for example 60s",
            spec(scaling={"drain": {"timeout": wrong}}),
            spec(scaling={"drain": {"timeout": right}}),
        )
        for why, wrong, right in (
            ("in which the front door learns nothing", "4999ms", "5s"),
            ("that takes all day", "1h1ms", "1h"),
        )
    ),
    Refusal(
        "a drain of engines that have nothing to hand over",
        "spec.scaling.drain",
        "has no effect with spec.transfer.protocol: NixlPull; remove the field, or set that to Push",
        spec(transfer=PULL, scaling={"drain": {"migrate": False}}),
        spec(transfer=PULL, scaling={}),
    ),
    *(
        Refusal(
            f"more engines of {role} than one engine can address, as {field}",
            f"spec.{role}.{field}",
            "256 engines are more than 255, which is all that an engine can address with spec.transfer.protocol: NixlPull; "
            "ask for fewer, or set that to Push",
            spec(transfer=PULL, **{role: wrong}),
            spec(transfer=PULL, **{role: right}),
        )
        for role in ("prefill", "decode")
        for field, wrong, right in (
            ("replicas", {"replicas": 256}, {"replicas": 255}),
            ("autoscaling.minReplicas", {"autoscaling": {"minReplicas": 256}}, {"autoscaling": {"minReplicas": 255}}),
            ("autoscaling.maxReplicas", {"autoscaling": {"maxReplicas": 256}}, {"autoscaling": {"maxReplicas": 255}}),
        )
    ),
    Refusal(
        "Push between engines that are split differently",
        "spec.decode.parallelism.tensor",
        "8 and spec.prefill.parallelism.tensor, which is 4: Push needs equal ones; make them equal, or set "
        "spec.transfer.protocol: NixlPull",
        spec(**tensor(4, 8)),
        spec(transfer={"protocol": "NixlPull"}, **tensor(4, 8)),
    ),
    Refusal(
        "NixlPull without the front door that runs it",
        "spec.frontDoor.enabled",
        "spec.transfer.protocol: NixlPull needs the front door, which runs its two legs; remove the field, or set that to Push",
        spec(transfer={"protocol": "NixlPull"}, frontDoor={"enabled": False}),
        spec(transfer={"protocol": "Push"}, frontDoor={"enabled": False}),
    ),
    Refusal(
        "tensor-parallel sizes that do not divide each other",
        "spec.decode.parallelism.tensor",
        "6 and spec.prefill.parallelism.tensor, which is 4: one must be a multiple of the other",
        spec(transfer=PULL, **tensor(4, 6)),
        spec(transfer=PULL, **tensor(4, 8)),
    ),
    *(
        Refusal(
            f"an engine of {role} on more GPUs than a node has",
            f"spec.{role}.parallelism.tensor",
            "16 GPUs are more than the 8 of a p5en.48xlarge node; an engine cannot span nodes yet",
            spec(transfer=PULL, **{role: {"parallelism": {"tensor": 16}}}),
            spec(transfer=PULL, accelerator=CPU, **{role: {"parallelism": {"tensor": 16}}}),
        )
        for role in ("prefill", "decode")
    ),
    *(
        Refusal(
            f"more ranks of {role} in a pod than a node has GPUs for",
            f"spec.{role}.parallelism.data",
            "4 ranks of 4 GPUs are more than the 8 of a p5en.48xlarge node, and a pod cannot span nodes yet; ask for fewer ranks, "
            "and for more replicas",
            spec(**{**tensor(4, 4), **_ranks(role, 4)}),
            spec(**{**tensor(4, 4), **_ranks(role, 2)}),
        )
        for role in ("prefill", "decode")
    ),
    *(
        Refusal(
            f"ranks of {role} with vLLM's connector",
            f"spec.{role}.parallelism.data",
            "2 data-parallel ranks need spec.transfer.protocol: Push; set that, or remove the field and ask for more replicas",
            spec(transfer=PULL, **_ranks(role, 2)),
            spec(transfer=PULL, **_ranks(role, 1)),
        )
        for role in ("prefill", "decode")
    ),
    Refusal(
        "more ranks of prefill engines than a decode engine can address",
        "spec.transfer.peersPerDecode",
        "16 prefill pods of 16 data-parallel ranks are more than the 255 engines that one can address; ask for fewer",
        spec(accelerator=CPU, transfer={"peersPerDecode": 16}, **_ranks("prefill", 16, 8)),
        spec(accelerator=CPU, transfer={"peersPerDecode": 15}, **_ranks("prefill", 16, 8)),
    ),
    *(
        Refusal(
            f"GPUs of a pod that are not the tensor-parallel size of {role}",
            "spec.accelerator.gpusPerPod",
            f"8 GPUs do not match spec.{role}.parallelism, whose tensor x data is 4; make them equal, or remove the field",
            spec(transfer=PULL, accelerator={"gpusPerPod": 8}, **{role: {"parallelism": {"tensor": 4}}}),
            spec(transfer=PULL, accelerator={"gpusPerPod": 8}, **{role: {"parallelism": {"tensor": 8}}}),
        )
        for role in ("prefill", "decode")
    ),
    *(
        Refusal(
            f"an engine of {role} whose share of the node's EFA devices is none",
            f"spec.{role}.parallelism.tensor",
            "1 of the 8 GPUs of a p4d.24xlarge node have no whole EFA device of its 4; raise the value, or set "
            "spec.accelerator.efa.perPod, or set spec.transfer.backend to UCX",
            spec(transfer=PULL, accelerator={"instanceType": "p4d.24xlarge"}, **{role: {"parallelism": {"tensor": 1}}}),
            spec(transfer=PULL, accelerator={"instanceType": "p4d.24xlarge"}, **{role: {"parallelism": {"tensor": 2}}}),
        )
        for role in ("prefill", "decode")
    ),
    Refusal(
        "EFA devices for UCX",
        "spec.transfer.backend",
        "UCX does not use EFA devices; use LIBFABRIC, or remove spec.accelerator.efa.perPod",
        spec(transfer={"backend": "UCX"}, accelerator={"efa": {"perPod": 16}}),
        spec(transfer={"backend": "UCX"}),
    ),
    Refusal(
        "LIBFABRIC on an instance type without EFA",
        "spec.transfer.backend",
        "LIBFABRIC needs EFA devices; use UCX, or an instance type with EFA and spec.accelerator.efa.perPod above 0 or absent",
        spec(transfer={"backend": "LIBFABRIC"}, accelerator=CPU),
        spec(transfer={"backend": "UCX"}, accelerator=CPU),
    ),
    Refusal(
        "LIBFABRIC without the EFA devices that the instance type has",
        "spec.transfer.backend",
        "LIBFABRIC needs EFA devices; use UCX, or an instance type with EFA and spec.accelerator.efa.perPod above 0 or absent",
        spec(transfer={"backend": "LIBFABRIC"}, accelerator={"efa": {"perPod": 0}}),
        spec(transfer={"backend": "LIBFABRIC"}, accelerator={"efa": {"perPod": 1}}),
    ),
    *SCALING_REFUSALS,
    *ROLLOUT_REFUSALS,
)
"""Refusals by the rules, at least one for each."""
