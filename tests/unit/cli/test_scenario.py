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
from penstock.lab.scenarios.scenario import Fact, Outcome, SinkAccount

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
        compared=outcome(differences=[LOST]),
    )
    monkeypatch.setattr(demo, "run", lambda *_args: found)

    said = run("demo")

    assert 1 == said.exit_code
    assert "error: delta: lost: 3" in said.output
    assert "burst: 1,000 records sent in 0.1 s and landed in 0.5 s, 2,000 a second" in said.output


def test_every_scenario_of_the_list_can_be_named() -> None:
    said = run("scenario", "list")

    assert 0 == said.exit_code
    assert {"players", "workers", "dead-workers", "kill-worker", "kill-broker", "spike", "poison"} == set(
        catalog.SCENARIOS
    )
    assert all(name in said.output for name in catalog.SCENARIOS)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["earthquake"], 2, "there is no scenario 'earthquake'"),
        (["poison", "--games", "-1"], 2, "--games"),
        (["poison", "--players", "1"], 2, "--players"),
        (["poison", "--sink", "shelf"], 2, "shelf"),
    ],
)
def test_bad_input_is_reported_and_nothing_is_started(arguments: list[str], code: int, words: str) -> None:
    said = run("scenario", *arguments)

    assert code == said.exit_code
    assert words in said.output
    assert [] == list(Path.cwd().iterdir())
