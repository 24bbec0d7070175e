# SPDX-License-Identifier: Apache-2.0
"""Percentiles, and the resources that the benchmark of the topology brings up."""

import math

import pytest

from e2e.bench.topology.fleet import NODE_GPUS, fleet, nodes_for
from e2e.bench.topology.lws import disaggregated_set
from e2e.bench.topology.numbers import percentile, percentile_of_histogram
from e2e.cluster.local.simulated import ZONES, node
from tandem_operator.api.resource import DisaggregatedInference


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (1, 100), (0, 1)])
def test_a_percentile_is_a_value_that_was_measured(share: float, value: float) -> None:
    assert percentile([float(each) for each in range(100, 0, -1)], share) == value


@pytest.mark.parametrize(("share", "value"), [(0.75, 0.075), (0.25, 0.025), (1, 0.1)])
def test_a_percentile_of_a_histogram_is_linear_within_a_bucket(share: float, value: float) -> None:
    assert percentile_of_histogram({0.05: 10, 0.1: 20, math.inf: 20}, share) == pytest.approx(value)


def test_beyond_the_last_bound_of_a_histogram_nothing_more_is_known_than_the_bound() -> None:
    assert percentile_of_histogram({1.0: 1, math.inf: 10}, 0.99) == 1


def test_without_measurements_there_is_no_percentile() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)
    with pytest.raises(ValueError, match="nothing"):
        percentile_of_histogram({math.inf: 0}, 0.5)


@pytest.mark.parametrize(("resources", "engines"), [(50, 1_000), (5, 100), (7, 150), (3, 10)])
def test_a_fleet_has_the_engines_that_were_asked_for_and_fits_into_its_zones(resources: int, engines: int) -> None:
    members = fleet(resources, engines)
    assert (len(members), sum(each.engines for each in members)) == (resources, engines)
    assert all(each.prefill and each.decode for each in members)
    gpus = dict.fromkeys(ZONES, 0)
    for number in range(nodes_for(members)):
        gpus[node(number)["metadata"]["labels"]["topology.kubernetes.io/zone"]] += NODE_GPUS
    for each in members:
        gpus[each.manifest["spec"]["placement"]["nodeSelector"]["topology.kubernetes.io/zone"]] -= each.engines
    assert min(gpus.values()) >= 0


def test_what_is_compared_has_the_same_pods_under_labels_that_nobody_watches() -> None:
    (member,) = fleet(1, 20)
    resource = DisaggregatedInference.model_validate(
        {**member.manifest, "metadata": {**member.manifest["metadata"], "uid": "x"}}
    )
    roles = {each["name"]: each["spec"] for each in disaggregated_set(member)["spec"]["roles"]}
    assert {name: spec["replicas"] for name, spec in roles.items()} == {
        "prefill": resource.spec.prefill.replicas,
        "decode": resource.spec.decode.replicas,
    }
    template = roles["decode"]["leaderWorkerTemplate"]["workerTemplate"]
    (container,) = template["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "tandem.dev/" not in str(template)
