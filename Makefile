# make up: everything, with games playing.   make demo: the main job, end to end.   make test: everything, on real servers.
.DEFAULT_GOAL := help
BIN := .venv/bin
unexport PYTHONDONTWRITEBYTECODE  # where it is set, each worker of the tests would compile all of them, in every run

help:  ## Show this list
	@grep -hE '^[a-z0-9.-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

setup:  ## Install what is missing: Java, the locked environment, the jars, archives of their classes
	@scripts/setup

demo: setup  ## Start Kafka, play superhero combat while pipelines land it, compare with the truth, stop
	@$(BIN)/penstock demo

SYSTEM := $(BIN)/penstock --project examples/superhero/penstock.yaml
up: setup  ## Start everything: Kafka and all services, games in the background, pipelines on Spark, the console
	@$(SYSTEM) up

down: setup  ## Stop what `make up` has started; the data stay
	@$(SYSTEM) down

setup-tests: setup  ## Install what the tests need beyond that: PostgreSQL, Redis and RabbitMQ servers, chromium
	@scripts/setup tests

test: setup-tests check  ## Lint, types, then every test, against real servers that the tests start and stop
	$(BIN)/pytest --numprocesses 3 --dist worksteal

test-fast: setup  ## The unit tests alone: no broker and no JVM, under two minutes
	$(BIN)/pytest tests/unit --numprocesses 3 --dist worksteal --override-ini tmp_path_retention_policy=failed

test-kafka-3.9: setup  ## The clients' tests against Kafka 3.9
	$(BIN)/pytest -m clients --kafka 3.9

MINUTES ?= 10
SEED ?= 1
soak: setup-tests  ## Random faults, all judged: make soak MINUTES=30 SEED=7
	$(BIN)/pytest -m soak --soak-minutes $(MINUTES) --soak-seed $(SEED)

COUNT ?= 200
histories: setup-tests  ## Random histories on shared servers, all judged: make histories COUNT=200 SEED=1
	$(BIN)/pytest -m histories --numprocesses 2 --dist worksteal --histories $(COUNT) --soak-seed $(SEED)

check: setup  ## ruff, mypy strict, the layers, and whether the generated reference is fresh
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/python scripts/generate_reference.py --check

docs: setup  ## The documentation as a site in .docs/site, for a browser without a network
	@scripts/setup docs
	@$(BIN)/python scripts/docs_site.py

bench: setup  ## Our clients beside Kafka's own Java tools
	$(BIN)/penstock bench broker

lock: setup  ## Resolve Python packages and jars again
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate --group dev --all-extras pyproject.toml --output-file requirements/dev.txt
	echo uv | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate --constraints requirements/dev.txt - --output-file requirements/bootstrap.txt
	echo mkdocs-material | $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate - --output-file requirements/docs.txt
	$(BIN)/python scripts/lock_jars.py

.PHONY: up down docs soak histories help setup setup-tests demo test test-fast test-kafka-3.9 check bench lock
