"""Merging facts: the same facts, whatever the order, the duplicates and the batches."""

import copy
import datetime
import random
from collections.abc import Iterable
from uuid import UUID

import pytest

from penstock.lineage import facts as f
from penstock.lineage.collected import Facts, packed, put, unpacked
from penstock.lineage.keys import DatasetKey, JobKey, LocationKey, time_of

NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
JOB = JobKey(LocationKey("airflow", "a"), "j")
RUN = UUID("01953000-0000-7000-8000-000000000001")


def random_facts(dice: random.Random) -> Facts:
    """Make facts about few things, so that they meet and contradict each other."""
    made = Facts()

    def some(*values: object) -> object:
        return dice.choice([None, *values])

    def time() -> datetime.datetime:
        return NOON + datetime.timedelta(minutes=dice.randrange(4))

    def uuid() -> UUID:
        return UUID(int=dice.randrange(2))

    place = LocationKey("kafka", dice.choice("ab"))
    put(made.locations, place, f.Location(place, frozenset({f"kafka://{dice.choice('ab')}"})))
    table = DatasetKey(place, "t")
    put(made.datasets, table, f.Dataset(table, dice.choice(["T", "t"])))
    job = JobKey(place, "j")
    parent_at = dice.choice([None, time()])
    parent = None if parent_at is None else JobKey(place, dice.choice("pq"))
    put(made.jobs, job, f.Job(job, dice.choice("Jj"), some("SPARK_APPLICATION", "DBT_JOB"), parent, parent_at))  # type: ignore[arg-type]
    made.symlinks.add(f.Symlink(table, DatasetKey(place, dice.choice("uv")), "METASTORE"))
    made.users.add(dice.choice(["ada", "grace"]))
    made.job_tags.add(f.JobTag(job, "spark.version", dice.choice("34")))
    seen = f.DatasetSchema(table, UUID(int=0), first := time(), first)
    put(made.dataset_schemas, (table, UUID(int=0)), seen)
    status = dice.choice(list(f.Status))
    ended_at = time() if status > f.Status.STARTED else None
    run = f.Run(
        id=uuid(),
        created_at=time(),
        job=job,
        status=status,
        started_at=some(time()),  # type: ignore[arg-type]
        ended_at=ended_at,
        attempt=some("1", "2"),  # type: ignore[arg-type]
    )
    put(made.runs, run.id, run)
    operation = f.Operation(
        id=uuid(), run_id=uuid(), created_at=time(), name=dice.choice("ab"), status=status, ended_at=ended_at
    )
    put(made.operations, operation.id, operation)
    key = f.IoKey(operation.id, table, NOON)
    put(made.inputs, key, f.Input(key=key, run_id=run.id, job=job, num_rows=some(1, 2)))  # type: ignore[arg-type]
    put(made.outputs, key, f.Output(key=key, run_id=run.id, job=job, kinds=dice.choice([0, 1, 16])))
    put(made.run_facets, (run.id, "x"), f.Facet(time(), dice.choice([b"1", b"2"])))
    return made


def merged(parts: Iterable[Facts]) -> Facts:
    whole = Facts()
    for part in parts:
        whole.merge(part)
    return whole


@pytest.mark.parametrize("seed", range(60))
def test_facts_are_equal_in_any_order_with_duplicates_and_in_any_batches(seed: int) -> None:
    dice = random.Random(seed)
    parts = [random_facts(dice) for _ in range(12)]
    before = copy.deepcopy(parts)
    expected = merged(parts)
    again = parts + dice.choices(parts, k=5)
    dice.shuffle(again)
    cut = dice.randrange(len(again))

    assert expected == merged(again)
    assert expected == merged([merged(again[:cut]), merged(again[cut:])])
    assert before == parts


def test_facts_are_the_same_after_packing() -> None:
    dice = random.Random(1)
    facts = merged(random_facts(dice) for _ in range(12))
    facts.column_relations[RUN] = (f.ColumnRelation("a", None, f.ColumnUse.FILTER),)
    facts.schemas[RUN] = b'[{"name":"id"}]'

    assert facts == unpacked(packed(facts))


def test_what_failed_stays_failed_whatever_comes_later() -> None:
    later = NOON + datetime.timedelta(hours=1)
    started = f.Run(id=RUN, created_at=NOON, job=JOB, status=f.Status.STARTED, started_at=NOON)
    failed = f.Run(id=RUN, created_at=NOON, job=JOB, status=f.Status.FAILED, ended_at=NOON)
    succeeded = f.Run(id=RUN, created_at=NOON, job=JOB, status=f.Status.SUCCEEDED, ended_at=later)

    expected = f.Run(id=RUN, created_at=NOON, job=JOB, status=f.Status.FAILED, started_at=NOON, ended_at=later)
    assert expected == succeeded.merge(started).merge(failed)
    assert expected == failed.merge(succeeded.merge(started))


def test_the_time_of_a_run_id_is_read_if_there_is_one() -> None:
    assert datetime.datetime(2025, 2, 22, 23, 31, 1, 248000, tzinfo=datetime.UTC) == time_of(RUN)
    assert time_of(UUID(int=5, version=4)) is None
