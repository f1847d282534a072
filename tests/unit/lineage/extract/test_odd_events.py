"""Events that are odd in any place: each is either refused with a reason or read, and neither stops the others."""

import json
import random

import pytest

from penstock.lineage.collected import packed, unpacked
from penstock.lineage.events import MalformedEvent, parse
from penstock.lineage.extract import Extractor
from penstock.lineage.keys import NO_RUN

from support import lineage_samples as samples
from support.lineage_spoilt import spoilt_value


@pytest.mark.parametrize("seed", range(5))
def test_whatever_stands_anywhere_in_an_event_it_is_read_or_refused(seed: int) -> None:
    dice = random.Random(seed)
    extractor, refused, read = Extractor(), 0, 0
    for _ in range(2000):
        try:
            event = parse(spoilt_value(dice))
        except MalformedEvent:
            refused += 1
        else:
            extractor.add(event)
            read += 1

    assert refused > 100
    assert read > 100
    facts = extractor.facts
    assert facts == unpacked(packed(facts))
    assert facts.datasets.keys() >= {key.dataset for key in (*facts.inputs, *facts.outputs)}
    assert facts.datasets.keys() >= {each for link in facts.symlinks for each in (link.source, link.target)}
    assert facts.datasets.keys() >= {each for row in facts.column_lineage for each in (row.source, row.target)}
    assert facts.jobs.keys() >= {run.job for run in facts.runs.values()}
    assert facts.jobs.keys() >= {job.parent for job in facts.jobs.values() if job.parent is not None}
    assert facts.runs.keys() >= {each.run_id for each in facts.operations.values()}
    assert facts.schemas.keys() >= {digest for _, digest in facts.dataset_schemas}
    assert facts.locations.keys() >= {key.location for key in facts.datasets}
    assert facts.users >= {run.started_by for run in facts.runs.values() if run.started_by is not None}
    assert not any("\0" in name for key in (facts.jobs, facts.datasets) for name in map(str, key))


def test_a_facet_that_is_null_says_nothing() -> None:
    event = samples.event("START", "2025-02-24T10:00:00Z", samples.CUSTOM, ("local", "j"), run_facets={"parent": None})
    extractor = Extractor()
    extractor.add(parse(json.dumps(event).encode()))

    assert {} == extractor.facts.run_facets


def test_a_parent_whose_id_names_no_run_is_none_and_its_facet_is_kept() -> None:
    nobody = {"run": {"runId": str(NO_RUN)}, "job": {"namespace": "n", "name": "nobody"}}
    known = {"run": {"runId": samples.CUSTOM}, "job": {"namespace": "n", "name": "root"}}
    extractor = Extractor()
    for number, parent in enumerate((nobody, known | {"root": nobody})):
        said = samples.event(
            "START",
            "2025-02-24T10:00:00Z",
            f"01953100-0000-7000-8000-00000000000{number}",
            ("local", "j"),
            run_facets={"parent": parent},
            job_facets=samples.job_type("SPARK", "SQL_JOB"),
        )
        extractor.add(parse(json.dumps(said).encode()))

    facts = extractor.facts
    assert NO_RUN not in facts.runs
    assert {"root", "j"} == {job.name for job in facts.jobs}
    assert {"parent"} == {name for _, name in facts.run_facets}
