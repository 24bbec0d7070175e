# SPDX-License-Identifier: Apache-2.0
"""Overlays of any kind over the generated pod templates: names that are there and names that aren't, and every directive."""

from collections.abc import Sequence
from typing import Any, Final

from hypothesis import strategies as st

_Strategy = st.SearchStrategy[Any]

_TEXT: Final = st.sampled_from(["1", "2", "x"])
_VARIABLE_NAMES: Final = ("TANDEM_ROLE", "PYTHONHASHSEED", "VLLM_NIXL_SIDE_CHANNEL_HOST", "NEW", "NEWER")
_VOLUME_NAMES: Final = ("shm", "launch", "peers", "new", "newer")
_CONTAINER_NAMES: Final = ("engine", "log", "proxy")
_VARIABLES: Final = st.sampled_from(_VARIABLE_NAMES)
_PATHS: Final = st.sampled_from(["/dev/shm", "/etc/tandem/peers", "/new", "/newer"])
_VOLUMES: Final = st.sampled_from(_VOLUME_NAMES)
_CONTAINERS: Final = st.sampled_from(_CONTAINER_NAMES)


def _maybe_null(values: _Strategy) -> _Strategy:
    return st.one_of(values, values, values, st.none())


def _some(required: dict[str, _Strategy], **optional: _Strategy) -> _Strategy:
    return st.fixed_dictionaries(required, optional={name.replace("__", "/"): each for name, each in optional.items()})


def _elements(key: str, identities: _Strategy, *kinds: _Strategy) -> _Strategy:
    """A list that is merged by `key`, now and then with elements that delete or replace."""
    deleted = st.builds(lambda identity: {key: identity, "$patch": "delete"}, identities)
    return st.one_of(
        st.lists(st.one_of(*kinds, *kinds, deleted), max_size=3, unique_by=lambda element: element[key]),
        st.lists(st.one_of(*kinds), max_size=2, unique_by=lambda element: element[key]).map(
            lambda listed: [{"$patch": "replace"}, *listed]
        ),
    )


def _order(key: str, identities: Sequence[str]) -> _Strategy:
    """Mostly of all elements that may be named beside it, as the directive wants."""
    all_of_them, some = st.permutations(identities), st.lists(st.sampled_from(identities), unique=True)
    return st.one_of(all_of_them, all_of_them, some).map(lambda listed: [{key: each} for each in listed])


def _map(*directives: str) -> _Strategy:
    """Of free keys, among them names of fields."""
    keys = st.sampled_from(["node.kubernetes.io/instance-type", "env", "cpu", "nvidia.com/gpu"])
    entries = st.dictionaries(keys, _maybe_null(_TEXT), max_size=3)
    marked = st.builds(lambda found, word: {**found, "$patch": word}, entries, st.sampled_from(directives))
    return st.one_of(entries, entries, marked)


_VARIABLE: Final = _some(
    {"name": _VARIABLES},
    value=_maybe_null(_TEXT),
    valueFrom=_maybe_null(_some({}, fieldRef=_some({}, fieldPath=_TEXT), configMapKeyRef=_some({}, key=_TEXT))),
)
_MOUNT: Final = _some({"mountPath": _PATHS}, name=_VOLUMES, readOnly=_maybe_null(st.booleans()))
_PORT: Final = _some({"containerPort": st.sampled_from([8000, 5601, 9])}, name=_TEXT, hostPort=st.just(80))
_PROBE: Final = _some({}, httpGet=_maybe_null(_some({}, path=_TEXT)), exec=st.none(), periodSeconds=st.integers(1, 9))
_ARGUMENTS: Final = st.lists(st.sampled_from(["--a", "--b", "sh"]), max_size=3)

_CONTAINER: Final = _some(
    {"name": _CONTAINERS},
    image=_TEXT,
    command=_maybe_null(_ARGUMENTS),
    args=_ARGUMENTS,
    env=_elements("name", _VARIABLES, _VARIABLE),
    **{"$setElementOrder__env": _order("name", _VARIABLE_NAMES)},
    ports=_elements("containerPort", st.sampled_from([8000, 9]), _PORT),
    volumeMounts=_elements("mountPath", _PATHS, _MOUNT),
    resources=_some({}, requests=_map("delete", "replace"), limits=_maybe_null(_map("delete"))),
    securityContext=_some({}, **{"$patch": st.just("replace")}, runAsUser=st.integers(0, 2)),
    readinessProbe=_maybe_null(_PROBE),
    lifecycle=_some({}, preStop=_some({"$retainKeys": st.just(["sleep"])}, sleep=_some({"seconds": st.just(9)}))),
)
_SOURCE: Final = {
    "hostPath": _some({}, path=_TEXT),
    "emptyDir": _some({}, sizeLimit=_maybe_null(_TEXT), **{"$patch": st.just("delete")}),
}
_VOLUME: Final = st.one_of(
    _some({"name": _VOLUMES}, emptyDir=_maybe_null(_SOURCE["emptyDir"]), configMap=st.none()),
    _some({"name": _VOLUMES, "$retainKeys": st.just(["name", "hostPath"])}, hostPath=_SOURCE["hostPath"]),
)
_TERM: Final = _some({}, podAffinity=_maybe_null(st.just({})), nodeAffinity=st.just({"required": [{"a": None}]}))

SPECS: Final = _some(
    {},
    containers=_elements("name", _CONTAINERS, _CONTAINER),
    **{"$setElementOrder__containers": _order("name", _CONTAINER_NAMES)},
    **{"$setElementOrder__volumes": _order("name", _VOLUME_NAMES)},
    initContainers=_elements("name", _CONTAINERS, _CONTAINER),
    volumes=_elements("name", _VOLUMES, _VOLUME),
    tolerations=_maybe_null(st.lists(_some({"key": _TEXT}), max_size=2)),
    nodeSelector=_maybe_null(_map("delete", "replace")),
    affinity=_maybe_null(_TERM),
    terminationGracePeriodSeconds=_maybe_null(st.integers(1, 9)),
    hostAliases=_elements("ip", _TEXT, _some({"ip": _TEXT}, hostnames=_ARGUMENTS)),
    topologySpreadConstraints=_elements("topologyKey", _TEXT, _some({"topologyKey": _TEXT}, maxSkew=st.just(1))),
)
"""`spec` of an overlay."""
