"""What is said of a dataset again and again, in the same words."""

import datetime
import itertools

import orjson

from support.lineage_samples import event, facet, job_type, parent
from support.lineage_stories import facts_of

RUN = "01953100-0000-7000-8000-000000000001"
NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


def test_a_dataset_has_its_schema_from_the_first_to_the_last_event_in_any_order_and_odd_symlinks_are_kept() -> None:
    def said(minute: int, column: str, symlinks: object) -> bytes:
        schema = {"fields": [{"name": column, "type": "string"}]}
        read = {"namespace": "kafka://a", "name": "t", "facets": {"schema": schema, "symlinks": symlinks}}
        time = NOON + datetime.timedelta(minutes=minute)
        return orjson.dumps(event("RUNNING", time.isoformat(), RUN, ("n", "j"), inputs=[read]))

    link = {"identifiers": [{"namespace": "hive://m", "name": "t", "type": "TABLE"}]}
    told = [said(4, "x", link), said(1, "x", link), said(9, "x", "odd"), said(6, "x", link), said(2, "y", link)]
    facts = facts_of([*told, said(3, "x", "odd")])

    seen = {(each.first_seen.minute, each.last_seen.minute) for each in facts.dataset_schemas.values()}
    assert {(1, 9), (2, 2)} == seen
    assert [(9, b'"odd"')] == [(each.seen_at.minute, each.value) for each in facts.dataset_facets.values()]
    assert 2 == len(facts.symlinks)


def test_what_one_event_says_of_its_application_counts_whatever_the_others_leave_out() -> None:
    app, jobs = "01953100-0000-7000-8000-0000000000aa", ("yarn://analytics", "daily")
    details = {"spark_applicationDetails": facet(master="yarn", appName="daily", applicationId="app_1", userName="ann")}

    def said(number: int, **more: object) -> bytes:
        run_id = f"01953100-0000-7000-8000-{number:012}"
        facets = {**parent(app, *jobs), **more}
        name = ("yarn://analytics", f"daily.execute_{number}")
        time = (NOON + datetime.timedelta(minutes=number)).isoformat()
        return orjson.dumps(
            event("COMPLETE", time, run_id, name, run_facets=facets, job_facets=job_type("SPARK", "SQL_JOB"))
        )

    told = [said(1), said(2, **details), said(3), said(4, house={"note": "x"})]
    every_order = [facts_of(list(each)) for each in itertools.permutations(told)]

    assert [every_order[0]] * 24 == every_order
    [run] = every_order[0].runs.values()
    assert ("app_1", "ann", {"ann"}) == (run.external_id, run.started_by, every_order[0].users)
    assert 4 == len(every_order[0].operations)


def test_a_schema_that_nests_deeper_than_any_answer_is_kept_as_it_came() -> None:
    def said(depth: int) -> bytes:
        facet_ = b'{"fields":' + b'[{"name":"a","fields":' * depth + b"[]" + b"}]" * depth + b"}"
        written = b'{"namespace":"hive://m","name":"t","facets":{"schema":' + facet_ + b"}}"
        told = orjson.dumps(event("COMPLETE", NOON.isoformat(), RUN, ("n", "j")))
        return told.replace(b'"outputs":[]', b'"outputs":[' + written + b"]")

    usual, deep = facts_of([said(50)]), facts_of([said(51)])

    assert (1, 0) == (len(usual.schemas), len(usual.dataset_facets))
    assert (0, ["schema"]) == (len(deep.schemas), [name for _, name in deep.dataset_facets])
