# SPDX-License-Identifier: Apache-2.0
"""`status` of a DisaggregatedInference."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from tandem_operator.api.base import ApiModel
from tandem_operator.api.values import INT32

_INT64 = {"format": "int64"}


class ConditionType(StrEnum):
    """All condition types; each is set from the first reconcile on."""

    READY = "Ready"
    """All that the spec wants is there and takes requests."""
    AVAILABLE = "Available"
    """A turn can be served now: a decode engine takes requests (with `NixlPull` a prefill engine too), and the front door is up."""
    PROGRESSING = "Progressing"
    """Pods are being brought to what the spec wants."""
    DEGRADED = "Degraded"
    """Something keeps the spec from being reached; the message says what."""
    SPEC_VALID = "SpecValid"
    """The operator can act on the spec."""
    FABRIC_ACTIVE = "FabricActive"
    """The engines exchange KV over what the resource asks for: NIXL's backend, libfabric's provider, the devices."""
    KV_TRANSFER_VERIFIED = "KVTransferVerified"
    """Conversations with decode engines have shown that KV moves both ways, and that answers are right."""
    SCALING_LIMITED = "ScalingLimited"
    """A role gets another number of engines than was asked for; the message says which bound is in the way. Scalers have it too."""


class Reason(StrEnum):
    """Why a condition has its status. Each is documented on the generated page of reasons."""

    ENGINES_READY = "EnginesReady"
    """All engines that the spec wants are ready."""
    ENGINES_STARTING = "EnginesStarting"
    """Some engines are not ready yet."""
    NO_PREFILL = "NoPrefillReady"
    """No prefill engine takes requests, and without one `NixlPull` serves none."""
    NO_DECODE = "NoDecodeReady"
    """No decode engine takes requests."""
    FRONT_DOOR_STARTING = "FrontDoorStarting"
    """Engines are ready but no front-door pod is."""
    SERVING = "Serving"
    """Engines take requests, as many as it takes to serve a turn."""
    SCALING_DOWN = "ScalingDown"
    """Engines that the spec no longer wants are ending."""
    ROLLING_OUT = "RollingOut"
    """Engines of one revision follow those of another; the message says how far that is."""
    ROLLOUT_PAUSED = "RolloutPaused"
    """`rollout.paused` keeps a revision from being begun, or from going on."""
    ROLLED_BACK = "RolledBack"
    """The spec's revision was given up, and the last complete one is back; the message says why, and how to try it again."""
    PROGRESS_DEADLINE = "ProgressDeadline"
    """No engine became ready within `rollout.progressDeadline`, and there is no complete revision to go back to."""
    SETTLED = "Settled"
    """Nothing is left to be done."""
    SCALED_TO_ZERO = "ScaledToZero"
    """The spec wants no engines of a role."""
    HEALTHY = "Healthy"
    """Nothing is wrong."""
    POD_FAILING = "PodFailing"
    """An engine pod cannot start or keeps failing; the message names it and its reason."""
    FRONT_DOOR_FAILING = "FrontDoorFailing"
    """The front door's pods cannot be made or don't become ready; the message has the Deployment's words."""
    UNSCHEDULABLE = "Unschedulable"
    """No node fits an engine pod; the message has the scheduler's words."""
    HUGE_PAGES_NOT_OFFERED = "HugePagesNotOffered"
    """No node that an engine may be on has as many huge pages as it asks for, free or not."""
    DEVICES_NOT_OFFERED = "DevicesNotOffered"
    """No node that an engine may be on has as many GPUs or EFA devices as it asks for, free or not."""
    DEVICE_PLUGIN_MISSING = "DevicePluginMissing"
    """No node that an engine may be on offers any GPU, or any EFA device: its device plugin doesn't run there."""
    ZONES_DIFFER = "ZonesDiffer"
    """Engines that exchange over EFA are in more than one availability zone."""
    ENGINE_VERSIONS_DIFFER = "EngineVersionsDiffer"
    """Engines of one configuration run different images."""
    NIXL_MISSING = "NixlMissing"
    """The engine's image has no NIXL."""
    IMMUTABLE_FIELD = "ImmutableField"
    """A child exists with a field that cannot be changed in place; the message says how to go on."""
    KEY_MISSING = "KeyMissing"
    """The Secret that `transfer.auth` names does not exist; the message says what to do."""
    APPLY_FAILED = "ApplyFailed"
    """The API server refused a child; the message has its words."""
    ISOLATION_LOST = "IsolationLost"
    """Engines run privileged with fewer EFA devices than the node has: they see each other's devices."""
    VALID = "Valid"
    """The spec is understood."""
    INVALID = "Invalid"
    """The spec cannot be acted on; the message names the field."""
    AS_ASKED = "AsAsked"
    """Each role gets as many engines as were asked for."""
    REPLICA_BOUNDS = "ReplicaBounds"
    """A scaler asks for fewer engines than `autoscaling.minReplicas`, or for more than `autoscaling.maxReplicas`."""
    RATIO_BOUNDS = "RatioBounds"
    """A role gets more or fewer engines than were asked for, to keep `scaling.ratio`."""
    GPU_BUDGET = "GpuBudget"
    """`scaling.gpuBudget` has no GPUs for all the engines that were asked for."""
    RATIO_UNREACHABLE = "RatioUnreachable"
    """No numbers that the other bounds allow keep `scaling.ratio`, so it isn't kept."""

    VERIFIED = "Verified"
    """In each pair's last conversation KV moved both ways, and the answer was right."""
    NOT_VERIFIED_YET = "NotVerifiedYet"
    """No conversation has shown anything yet."""
    VERIFICATION_OFF = "VerificationOff"
    """`verification.enabled` is false."""
    NOT_WITH_NIXL_PULL = "NotWithNixlPull"
    """Only engines with `Push` say what moved; with `NixlPull` look at vLLM's metrics `vllm:nixl_*`."""
    KEY_REQUIRED = "KeyRequired"
    """The engines ask for an API key, which the operator can't read, so it can't converse with them."""
    CONVERSATION_REFUSED = "ConversationRefused"
    """An engine refuses the conversation as a wrong request; the message has its words."""
    INCONCLUSIVE = "Inconclusive"
    """The last conversations showed nothing for or against."""
    ENGINE_UNREACHABLE = "EngineUnreachable"
    """The operator can't reach an engine's HTTP port, or gets no answer from it that it understands."""
    TIMEOUT = "Timeout"
    """A conversation wasn't answered in time, or prefill didn't compute in time what decode asked for."""
    NO_PEER = "NoPeer"
    """A decode engine has no prefill engine that it could ask, though its peer table names some that are ready."""
    VERSION_MISMATCH = "VersionMismatch"
    """An engine refuses its peers because versions or settings differ; its log names the field (`peer_refused`)."""
    NOTHING_MOVED = "NothingMoved"
    """KV that should have been written to the other engine was computed there instead."""
    NOTHING_MOVED_BACK = "NothingMovedBack"
    """What decode computed did not come back to prefill, which had no room for it, or didn't get it."""
    WRONG_OUTPUT = "WrongOutput"
    """An answer made from KV that was moved differs from the one that prefill computes by itself."""
    FABRIC_AS_ASKED = "FabricAsAsked"
    """All engines use what the resource asks for."""
    FABRIC_NOT_REPORTED = "FabricNotReported"
    """No engine has said yet over what it exchanges."""
    WRONG_BACKEND = "WrongBackend"
    """An engine's NIXL has another backend than was asked for."""
    TCP_FALLBACK = "TcpFallback"
    """libfabric isn't held to EFA in an engine, and may exchange over TCP."""
    DEVICES_MISSING = "DevicesMissing"
    """An engine was given fewer EFA devices than were asked for."""
    QUARANTINED = "Quarantined"
    """An engine whose pairs keep failing while others work is out of use, until it is restarted."""
    RESTARTED = "RestartedFromQuarantine"
    """The engine's pod was made anew, and has to prove itself."""
    VERIFICATION_REFUSED = "VerificationRefused"
    """What the annotation `tandem.dev/verify-requested-at` asks for can't be done; the Event has why, and the remedy."""


class ConditionStatus(StrEnum):
    """Kubernetes' three condition statuses."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """As metav1.Condition."""

    type: Annotated[str, Field(max_length=316)]
    """What the condition is about."""
    status: ConditionStatus
    """Whether it holds."""
    observed_generation: Annotated[int, Field(json_schema_extra=_INT64)]
    """`metadata.generation` of the resource that the condition was computed from."""
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When `status` last changed, RFC 3339."""
    reason: Annotated[str, Field(max_length=1024)]
    """Why, in one word for programs."""
    message: Annotated[str, Field(max_length=32768)]
    """Why, in a sentence for people."""


class RoleStatus(ApiModel):
    """A pool as last seen."""

    replicas: Annotated[int, Field(json_schema_extra=INT32)] = 0
    """Pods that exist."""
    ready: Annotated[int, Field(json_schema_extra=INT32)] = 0
    """Pods that take requests."""
    updated: Annotated[int, Field(json_schema_extra=INT32)] = 0
    """Pods of the revision that the spec asks for."""
    draining: Annotated[int, Field(json_schema_extra=INT32)] = 0
    """Pods that are ending."""
    selector: Annotated[str, Field(max_length=1024)] = ""
    """Label selector of the pods."""


class Topology(ApiModel):
    """Summary of the peer tables."""

    generation: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    """Highest generation of the engines' peer tables."""
    digest: Annotated[str, Field(max_length=64)] = ""
    """Changes when any engine's peers change."""
    engines: Annotated[int, Field(json_schema_extra=INT32)] = 0
    """Engines that have a peer table; data-parallel ranks are engines of their own."""
    pairs: Annotated[int, Field(json_schema_extra=INT32)] = 0
    """Prefill-decode pairs that know each other."""


class Revision(ApiModel):
    """Names of revisions, as in the label `tandem.dev/revision` of engine pods."""

    current: Annotated[str, Field(max_length=63)] = ""
    """Of the engines that there are."""
    next: Annotated[str, Field(max_length=63)] = ""
    """Of the engines that follow them, while they do or while `rollout.paused` keeps them from it; else empty."""
    since: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When `next` became what it is; absent while that is empty."""


class Quarantined(ApiModel):
    """An engine that is out of use, or on trial after that."""

    pod: Annotated[str, Field(max_length=253)]
    """Name of its pod."""
    role: Annotated[str, Field(max_length=16)]
    """`prefill` or `decode`."""
    uid: Annotated[str, Field(max_length=64)] = ""
    """The pod that is out of use; empty: it was restarted, and is on trial."""
    reason: Annotated[str, Field(max_length=1024)]
    """Why its pairs failed, in one word."""
    message: Annotated[str, Field(max_length=1024)] = ""
    """Why, in a sentence."""
    since: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """From when on."""
    restarts: Annotated[int, Field(json_schema_extra=INT32)] = 0
    """How often it was restarted for that."""
    restart_at: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When it will be; absent: it is on trial, or was restarted as often as it is."""


class RequestState(StrEnum):
    """How far a request for verification is."""

    RUNNING = "Running"
    """Conversations are held for it."""
    ANSWERED = "Answered"
    """Each pair has shown something."""
    TIMED_OUT = "TimedOut"
    """There was no answer of some pairs in time."""
    REFUSED = "Refused"
    """No conversation was held for it; the message says why, and the remedy."""


class RequestedVerification(ApiModel):
    """What came of the newest request for conversations now. What is known of pairs since then, the conditions say."""

    request: Annotated[str, Field(max_length=64)] = ""
    """The value of the annotation `tandem.dev/verify-requested-at` that this answers; empty: it had one that can't be one."""
    state: RequestState
    """How far it is."""
    since: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When the operator took it up."""
    until: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When it ends at the latest; absent where it was refused."""
    pairs: Annotated[int, Field(json_schema_extra=INT32)] = 0
    """Pairs that it is about: engines that are as the spec says, ready, and told of each other."""
    shown: Annotated[int, Field(json_schema_extra=INT32)] = 0
    """Of these, those of which KV was seen to move and to be right since the request."""
    failed: Annotated[int, Field(json_schema_extra=INT32)] = 0
    """Of these, those that failed as often as it takes to believe it."""
    message: Annotated[str, Field(max_length=1024)] = ""
    """What came of it, in a sentence."""


class Status(ApiModel):
    """What the operator saw and did."""

    observed_generation: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    """`metadata.generation` of the resource that the status was computed from."""
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=32,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()
    """One of each type, from the first reconcile on."""
    prefill: RoleStatus = RoleStatus()
    """The prefill pool."""
    decode: RoleStatus = RoleStatus()
    """The decode pool."""
    topology: Topology = Topology()
    """Summary of the peer tables."""
    endpoint: Annotated[str, Field(max_length=512)] = ""
    """URL of the OpenAI-compatible API inside the cluster."""
    quarantined: Annotated[
        tuple[Quarantined, ...],
        Field(
            max_length=600,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["pod"]},
        ),
    ] = ()
    """Engines whose pairs kept failing while others worked."""
    revision: Revision = Revision()
    """Which configuration the engines are of."""
    verification: RequestedVerification | None = None
    """What came of the newest request for verification; absent: nobody asks for one."""
