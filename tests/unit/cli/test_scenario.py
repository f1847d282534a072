"""What the commands say when nothing is started, and when what came out is not what went in."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from penstock.cli import app
from penstock.delivery.selection import Reason
from penstock.lab import demo
from penstock.lab.scenarios import catalog, scenario
from penstock.lab.scenarios.judge import Difference
from penstock.lab.scenarios.midnight import midnight
from penstock.lab.scenarios.midnight.midnight import Account, MidnightOutcome
from penstock.lab.scenarios.midnight.senders import SendingResult
from penstock.lab.scenarios.names import ABOUT
from penstock.lab.scenarios.scenario import Outcome, SinkAccount
from penstock.lab.scenarios.verdict import Fact
from penstock.lineage.shapes.lineage import Lineage

LOST = Difference(where="delta", what="lost", count=3, examples=["partition 0 offset 7", "partition 1 offset 2"])


def outcome(**changes: Any) -> Outcome:
    whole = {
        "scenario": "poison",
        "players": 10,
        "games": 20,
        "seed": 1,
        "events": 500,
        "malformed": 5,
        "sinks": [SinkAccount(sink="delta", sent=505, landed=500, dead=5, difference=0)],
        "lag": 0,
        "podium": 80,
        "truth": 80,
        "facts": [Fact(what="kills", value=2)],
        "reasons": [Reason(pipeline="combat", stage="decode", error="Malformed", letters=5, example="", topic="t")],
        "differences": [],
        "seconds": 12.0,
    }
    return Outcome.model_validate({**whole, **changes})


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def ends_with(monkeypatch: pytest.MonkeyPatch) -> Any:
    def end(found: Outcome) -> None:
        monkeypatch.setattr(scenario, "run_scenario", lambda *_args, **_options: found)

    return end


def test_a_scenario_that_comes_to_the_truth_says_so_and_exits_with_0(ends_with: Any) -> None:
    ends_with(outcome())

    said = run("scenario", "poison")

    assert 0 == said.exit_code
    assert "sent = landed + dead in every sink, and all 80 rows of the podium are the truth" in said.output
    assert "505" in said.output
    assert "kills" in said.output
    assert "Malformed" in said.output


def test_a_scenario_that_does_not_says_exactly_what_differs_and_exits_with_1(ends_with: Any) -> None:
    ends_with(outcome(differences=[LOST]))

    said = run("scenario", "poison")

    assert 1 == said.exit_code
    assert "error: delta: lost: 3, such as partition 0 offset 7; partition 1 offset 2" in said.output
    assert "are the truth" not in said.output


def test_the_exit_code_is_1_for_machines_too(ends_with: Any) -> None:
    ends_with(outcome(differences=[LOST]))

    assert 1 == run("scenario", "poison", "--json").exit_code


def test_the_demo_fails_like_a_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    found = demo.DemoOutcome(
        podium=[],
        tables=[],
        delays=[],
        live=demo.Live(records=100, seconds=10.0, batches=5),
        burst=demo.Burst(records=1000, rows=1000, sent_s=0.1, landed_s=0.5),
        lineage=Lineage(),
        compared=outcome(differences=[LOST]),
    )
    monkeypatch.setattr(demo, "run", lambda *_args: found)

    said = run("demo")

    assert 1 == said.exit_code
    assert "error: delta: lost: 3" in said.output
    assert "burst: 1,000 records sent in 0.1 s and landed in 0.5 s, 2,000 a second" in said.output


@pytest.mark.parametrize(
    ("differences", "code", "words"),
    [
        ([], 0, "no sender waited or was refused, the backlog drained, and the store is what the events say"),
        ([LOST], 1, "error: delta: lost: 3"),
    ],
)
def test_midnight_prints_senders_backlog_and_store(
    monkeypatch: pytest.MonkeyPatch, differences: list[Difference], code: int, words: str
) -> None:
    way = SendingResult(way="HTTP", events=7, calls=3, refused=0, p50_ms=4.5, p99_ms=9.5, slowest_ms=9.9, late_ms=2.0)
    found = MidnightOutcome(
        scenario="midnight",
        seed=1,
        events=900,
        facts=[Fact(what="backlog at its highest", value=512)],
        ways=[way],
        accounts=[Account(what="runs", truth=77, stored=77, difference=0)],
        differences=differences,
        seconds=60.0,
    )
    given: dict[str, Any] = {}
    monkeypatch.setattr(midnight, "run_midnight", lambda *_args, **options: given.update(options) or found)

    said = run("scenario", "midnight", "--workers", "3")

    assert code == said.exit_code
    assert 3 == given["workers"]
    assert words in said.output
    assert all(
        part in said.output for part in ("HTTP", "9.9", "backlog at its highest", "512", "runs", "77", "900 events")
    )


def test_every_scenario_of_the_list_can_be_named() -> None:
    said = run("scenario", "list")

    assert 0 == said.exit_code
    assert {"players", "workers", "dead-workers", "kill-worker", "kill-broker", "spike", "midnight", "poison"} == set(
        ABOUT
    )
    assert set(ABOUT) == {*catalog.SCENARIOS, "midnight"}
    assert all(name in said.output for name in ABOUT)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["earthquake"], 2, "there is no scenario 'earthquake'"),
        (["poison", "--games", "-1"], 2, "--games"),
        (["poison", "--players", "1"], 2, "--players"),
        (["poison", "--sink", "shelf"], 2, "shelf"),
        (["poison", "--events", "500"], 2, "--events is not for the scenario 'poison', which is about games"),
        (["midnight", "--games", "5"], 2, "--games is not for the scenario 'midnight', which is about lineage"),
        (["midnight", "--events", "1"], 2, "--events"),
        (["midnight", "--store", "shelf"], 2, "shelf"),
    ],
)
def test_bad_input_is_reported_and_nothing_is_started(arguments: list[str], code: int, words: str) -> None:
    said = run("scenario", *arguments)

    assert code == said.exit_code
    assert words in said.output
    assert [] == list(Path.cwd().iterdir())
