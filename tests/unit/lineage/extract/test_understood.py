"""Facets that come again, byte for byte, are read once, and always say the same."""

import datetime

import msgspec
import orjson
import pytest

from penstock.lineage.extract import understood
from penstock.lineage.extract.understood import JOB, RUN, Remembered, read

from support.lineage_samples import ALL, event, facet, job_type, parent
from support.lineage_stories import facts_of

NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize("which", ["run", "job"])
def test_facets_say_the_same_the_first_and_the_second_time(which: str) -> None:
    readers = {"run": RUN, "job": JOB}[which]
    remembered = Remembered(readers)

    for each in [said for story in ALL.values() for said in story if which in said] * 2:
        found = msgspec.json.decode(msgspec.json.encode(each[which]["facets"]), type=dict[str, msgspec.Raw])
        known: dict[str, object] = {}
        unknown: list[tuple[str, bytes]] = []
        read(found, readers, known, unknown)

        assert (known, unknown) == remembered.read(found)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(understood, "_MOST_BYTES", 10_000)
    remembered = Remembered(RUN)

    for number in range(1000):
        remembered.read({"house": msgspec.Raw(b'{"note":"%090d"}' % number)})

        assert sum(map(len, remembered._understood)) <= 10_000


def test_of_operations_that_fail_with_the_same_words_each_keeps_its_error_once() -> None:
    def said(number: int, kind: str) -> bytes:
        facets = {
            **parent("01953100-0000-7000-8000-0000000000aa", "yarn://a", "daily"),
            "errorMessage": facet(message="x"),
        }
        run_id, time = f"01953100-0000-7000-8000-{number:012}", NOON + datetime.timedelta(seconds=number)
        job = ("yarn://a", "daily.save")
        return orjson.dumps(
            event(kind, time.isoformat(), run_id, job, run_facets=facets, job_facets=job_type("SPARK", "SQL_JOB"))
        )

    facts = facts_of([said(number, kind) for number in range(3) for kind in ("START", "FAIL")])

    assert [("errorMessage", 1)] * 3 == sorted(
        (name, orjson.loads(each.value)["message"].count("x")) for (_, name), each in facts.run_facets.items()
    )
