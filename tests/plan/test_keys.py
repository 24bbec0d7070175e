# SPDX-License-Identifier: Apache-2.0
"""The Secret with the exchange's key, and how engines get it."""

from typing import Any

from tandem_connector.contract.types import Role
from tandem_operator.api.names import REVISION_LABEL
from tandem_operator.plan.plan import plan
from tandem_operator.plan.types import WantedKey
from tests.builders import DEFAULTS, a_pod, a_ready_pod, a_resource, observed
from tests.builders.pods import PodBuilder
from tests.builders.resources import ResourceBuilder
from tests.plan.made import engine, environment, named, pod_spec, template

USERS = a_resource().with_spec("transfer", "auth", value={"secretRef": {"name": "keys", "key": "chat"}})


def wanted(resource: ResourceBuilder, *pods: PodBuilder) -> WantedKey | None:
    return plan(observed(resource, pods), DEFAULTS).key


def running(role: Role, resource: ResourceBuilder) -> PodBuilder:
    return a_ready_pod(role).of_revision(template(resource)["metadata"]["labels"][REVISION_LABEL])


def volume(resource: ResourceBuilder) -> dict[str, Any]:
    found: dict[str, Any] = named(pod_spec(resource)["volumes"], "keys")["secret"]
    return found


def test_a_key_is_made_for_engines_that_are_still_to_start() -> None:
    key = wanted(a_resource())
    assert key is not None
    assert key.generated
    assert "immutable" not in key.secret, "the kubelet would not show another key to engines that run"
    assert key.secret["metadata"]["name"] == volume(a_resource())["secretName"]
    (owner,) = key.secret["metadata"]["ownerReferences"]
    assert owner["uid"] == a_resource().manifest()["metadata"]["uid"]
    assert not {"data", "stringData"} & key.secret.keys(), "a plan holds no key"


def test_nothing_is_wanted_while_all_engines_run() -> None:
    both = [running(role, a_resource()) for role in Role]
    assert wanted(a_resource(), *both) is None
    assert wanted(a_resource().with_decode(2), *both) is not None
    assert wanted(a_resource(), running(Role.PREFILL, a_resource()), a_pod(Role.DECODE)) is not None


def test_engines_of_a_former_configuration_do_not_count() -> None:
    former = [running(role, a_resource()) for role in Role]
    assert wanted(USERS, *former) is not None


def test_a_resource_of_the_same_name_has_another_secret() -> None:
    successor = a_resource().manifest()
    successor["metadata"]["uid"] = "successor"
    assert volume(ResourceBuilder(successor))["secretName"] != volume(a_resource())["secretName"]


def test_the_users_secret_is_looked_for_and_mounted_in_place_of_one_of_ours() -> None:
    key = wanted(USERS)
    assert key is not None
    assert (key.generated, key.secret["metadata"], key.entry) == (
        False,
        {"name": "keys", "namespace": "models"},
        "chat",
    )
    assert volume(USERS)["secretName"] == "keys"
    assert volume(USERS)["items"] == [{"key": "chat", "path": "exchange.json"}]


def test_an_engine_reads_the_key_from_a_file_that_only_its_user_may_read() -> None:
    assert environment(a_resource())["TANDEM_KEYS_FILE"] == "/etc/tandem/keys/exchange.json"
    assert named(engine(a_resource())["volumeMounts"], "keys") == {
        "name": "keys",
        "mountPath": "/etc/tandem/keys",
        "readOnly": True,
    }
    assert volume(a_resource())["items"] == [{"key": "exchange.json", "path": "exchange.json"}]
    assert volume(a_resource())["defaultMode"] == 0o400


def test_vllms_own_connector_has_no_key() -> None:
    pulling = a_resource().pulling()
    assert wanted(pulling) is None
    assert "TANDEM_KEYS_FILE" not in environment(pulling)
    assert "keys" not in {each["name"] for each in pod_spec(pulling)["volumes"]}


def test_a_secret_of_another_name_makes_a_revision_so_that_engines_of_either_key_keep_to_themselves() -> None:
    newer = USERS.with_spec("transfer", "auth", value={"secretRef": {"name": "keys-2", "key": "chat"}})
    revisions = {template(each)["metadata"]["labels"][REVISION_LABEL] for each in (a_resource(), USERS, newer)}
    assert len(revisions) == 3
    assert volume(newer)["secretName"] == "keys-2"
