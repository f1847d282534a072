"""A seeded history is the same for the same seed, has as many runs as asked for, and is understood."""

import datetime
from collections import Counter
from uuid import UUID

import orjson
import pytest
from pydantic import ValidationError

from penstock.lineage import events
from penstock.lineage.extract.extractor import Extractor
from penstock.lineage.gateway.events import lineage_record
from penstock.lineage.seed.history import SeedOptions, history

_START = datetime.date(2026, 3, 1)


def _options(days: int = 3, **more: int) -> SeedOptions:
    return SeedOptions(start=_START, end=_START + datetime.timedelta(days=days - 1), **more)


def test_the_same_seed_is_the_same_history() -> None:
    first, again, other = (orjson.dumps(list(history(_options(seed=seed)))) for seed in (1, 1, 2))

    assert first == again != other


@pytest.mark.parametrize(("least", "most"), [(1, 1), (7, 7), (50, 100)])
def test_a_day_has_as_many_runs_as_asked_for(least: int, most: int) -> None:
    for runs, day in history(_options(min_runs=least, max_runs=most)):
        assert least <= runs <= most
        assert runs == len({event["run"]["runId"] for event in day})


def test_every_kind_of_producer_takes_part_and_the_gateway_would_take_all() -> None:
    found = [event for _, day in history(_options(days=2)) for event in day]
    kinds = Counter(event["job"]["facets"]["jobType"]["integration"] for event in found)
    keys = {lineage_record(orjson.dumps(event), None).key for event in found}

    assert {"SPARK", "AIRFLOW", "DBT", "FLINK", "HIVE", "CUSTOM"} == set(kinds)
    assert {7} == {UUID(event["run"]["runId"]).version for event in found}
    assert b"run:http://airflow.shop:8080/shop_daily" in keys
    assert b"run:yarn://shop/load_orders" in keys


def test_all_of_it_is_understood() -> None:
    extractor = Extractor()
    for _, day in history(_options(days=2)):
        for event in day:
            extractor.add(events.parse(orjson.dumps(event)))
    facts = extractor.facts
    types = {job.type for job in facts.jobs.values()}

    assert {"AIRFLOW_DAG", "AIRFLOW_TASK", "SPARK_APPLICATION", "DBT_JOB", "FLINK_JOB", "HIVE_SESSION"} <= types
    assert {"errorMessage"} == {name for _, name in facts.run_facets}
    assert {} == facts.dataset_facets
    assert min(len(facts.inputs), len(facts.outputs), len(facts.column_relations)) > 0


def test_days_are_in_order() -> None:
    times = [event["eventTime"] for _, day in history(_options(days=1)) for event in day]

    assert sorted(times) == times


def test_a_history_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ValidationError, match="before the first"):
        SeedOptions(start=_START, end=_START - datetime.timedelta(days=1))
    with pytest.raises(ValidationError, match="at least"):
        _options(min_runs=5, max_runs=4)
