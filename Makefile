# SPDX-License-Identifier: Apache-2.0
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# Relative paths only, so that a checkout in a folder with spaces works.
PYTHON := .venv/bin/python
PYTEST_ARGS ?=
BENCH_ARGS ?=
# Where Go's own instructions install it, and which sudo leaves out.
export PATH := $(PATH):/usr/local/go/bin

.PHONY: help
help: ## Show this list
	@if [ -t 1 ]; then on='\033[1m' off='\033[0m'; else on='' off=''; fi; awk -v on="$$on" -v off="$$off" \
		'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %s%-15s%s %s\n", on, $$1, off, $$2}' Makefile
	@echo
	@echo "  COMPARE=no ends the demo with its first table; CHART=file names where its chart goes."
	@echo "  CLUSTER=local|kind|kubeconfig chooses where Kubernetes comes from (default: kind where a Docker engine"
	@echo "  answers, else local). TANDEM_CACHE holds what is expensive to build (default ~/.cache/tandem)."

.PHONY: setup
setup: ## Install the Python tools into .venv, from the lock file
	@e2e/setup.sh

.PHONY: prepare
prepare: setup ## Build what cluster and engines need: Kubernetes, the engine environment, images (cached)
	@$(PYTHON) -m e2e.prepare

.PHONY: demo
demo: setup ## From nothing to an answered conversation: cluster, operator, engines, what was computed and moved, compared
	@$(PYTHON) -m e2e.demo up $(if $(filter no,$(COMPARE)),--no-compare) $(if $(CHART),--chart "$(CHART)")

.PHONY: demo-down
demo-down: setup ## Remove all that `make demo` started
	@$(PYTHON) -m e2e.demo down

.PHONY: test
test: setup check prepare ## Run every check and test but the longest, real cluster and engines included
	@$(PYTHON) -m e2e.testrun all $(PYTEST_ARGS)

.PHONY: test-long
test-long: prepare ## Run the end-to-end tests that `make test` leaves out for their time (more than an hour)
	@$(PYTHON) -m pytest -m long e2e/suite $(PYTEST_ARGS)

.PHONY: unit
unit: setup ## Run the fast tests only, on all cores (no cluster, no root)
	@$(PYTHON) -m e2e.testrun side-by-side tests $(PYTEST_ARGS)

.PHONY: e2e
e2e: prepare ## Run the end-to-end tests only
	@$(PYTHON) -m e2e.testrun all e2e/suite $(PYTEST_ARGS)

.PHONY: check
check: setup ## Lint, types, import layers, generated files, YAML, workflows
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m mypy
	@.venv/bin/lint-imports
	@$(PYTHON) -m tandem_operator.api.crd check
	@$(PYTHON) -m charts check
	@$(PYTHON) -m e2e.images dockerfiles --check
	@$(PYTHON) -m yamllint --strict .
	@$(PYTHON) -m check_jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yaml
	@go -C e2e/tools tool actionlint "$$PWD"/.github/workflows/*.yaml

.PHONY: bench-transfer
bench-transfer: setup ## Measure the data path of the exchange against raw NIXL, on this machine
	@$(PYTHON) -m e2e.engine build
	@$(PYTHON) -m e2e.bench.transfer

MINUTES ?= 10
SOAK_ARGS ?=

.PHONY: soak
soak: setup ## Run real engines under load and random faults for MINUTES (default 10): nothing wrong, hung or leaked
	@$(PYTHON) -m e2e.engine build
	@$(PYTHON) -m e2e.soak --minutes $(MINUTES) $(SOAK_ARGS)

.PHONY: chaos-frontdoor
chaos-frontdoor: setup ## Count what clients notice of engines that die, freeze and fail behind vllm-router and nginx
	@$(PYTHON) -m pytest e2e/suite/front_door --capture=no $(PYTEST_ARGS)

CHAOS_ARGS ?=

.PHONY: chaos-topology
chaos-topology: prepare ## Let engines in pods come and go under load for MINUTES (default 10): nothing wrong, hung or broken
	@$(PYTHON) -m e2e.chaos.topology --minutes $(MINUTES) $(CHAOS_ARGS)

.PHONY: chaos-operator
chaos-operator: setup ## Kill, freeze, cut off and deceive the operator, its API server and etcd: no ghost, nothing lost or restarted
	@$(PYTHON) -m e2e.chaos.operator $(CHAOS_ARGS)

.PHONY: bench-kv
bench-kv: setup ## Measure conversations over the exchange, upstream's connector and a plain engine: two cores, root, 25 minutes
	@$(PYTHON) -m e2e.engine build
	@$(PYTHON) -m e2e.bench.kv $(BENCH_ARGS)

.PHONY: bench-topology
bench-topology: setup ## Measure the operator with 1,000 engines, beside LeaderWorkerSet, and a real node: two cores, root, 15 minutes
	@$(PYTHON) -m e2e.bench.topology $(BENCH_ARGS)

.PHONY: format
format: setup ## Format the code and apply safe fixes
	@$(PYTHON) -m ruff check --fix .
	@$(PYTHON) -m ruff format .

.PHONY: generate
generate: setup ## Write the CRD, its reference, the chart's README, schema and dashboards, the plain install and the Dockerfiles
	@$(PYTHON) -m tandem_operator.api.crd write
	@$(PYTHON) -m charts write
	@$(PYTHON) -m e2e.images dockerfiles

.PHONY: docs
docs: setup ## Build the documentation's site into build/site; fails for a link that leads nowhere
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict

.PHONY: packages
packages: setup ## Build the Python packages, and the SBOM of what they need, into dist/
	@$(PYTHON) -m uv build --quiet --package tandem-connector --out-dir dist
	@$(PYTHON) -m uv build --quiet --package tandem-operator --out-dir dist
	@$(PYTHON) -m uv export --quiet --frozen --format cyclonedx1.5 --package tandem-operator --no-default-groups \
		--output-file dist/tandem-operator.cdx.json

.PHONY: images
images: setup ## Build the container images as OCI archives
	@$(PYTHON) -m e2e.images build

.PHONY: cluster-up
cluster-up: setup ## Start the cluster and nothing else
	@$(PYTHON) -m e2e.cluster up

.PHONY: cluster-down
cluster-down: setup ## End the cluster
	@$(PYTHON) -m e2e.cluster down

.PHONY: lock
lock: ## Renew the lock files
	@[ -x $(PYTHON) ] || e2e/setup.sh  # which refuses a lock file that doesn't fit, as it doesn't where this is needed
	@$(PYTHON) -m uv lock
	@$(PYTHON) -m uv lock --project e2e/engine
	@$(PYTHON) -m uv lock --project e2e/gpu
