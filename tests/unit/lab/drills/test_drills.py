import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.broker.cluster import Cluster
from penstock.cli import app
from penstock.errors import BadInput, BrokerUnavailable, Conflict
from penstock.lab.drills import catalog, throwaway
from penstock.lab.drills.catalog import DRILLS, choose
from penstock.lab.drills.drill import Drill, Stage, StepResult, as_text, perform

ROOT = Path(__file__).parents[4]


class Listener:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.waits: list[str] = []
        self.open = False

    def say(self, line: str) -> None:
        self.lines.append(line)

    def waiting(self, what: str, passed_s: float, limit_s: float) -> None:
        assert passed_s < limit_s
        self.waits.append(what)
        self.open = True

    def waited(self) -> None:
        self.open = False


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def stage(tmp_path: Path, listener: Listener) -> Stage:
    """A stage without a cluster: nothing here asks Kafka."""
    return Stage(Cluster(tmp_path / "broker", tmp_path / "jars"), tmp_path, listener)


def drill(run: Callable[[Stage], None]) -> Drill:
    return Drill("made-up", "a drill of the test", "Some background.", run)


def as_expected(stage: Stage) -> None:
    with stage.step("Look", expected="something") as step:
        step.saw("something", passed=True)


def otherwise(stage: Stage) -> None:
    with stage.step("Look", expected="something") as step:
        step.saw("nothing", passed=False)


def test_a_step_tells_what_is_done_and_expected_before_and_what_happened_after(
    stage: Stage, listener: Listener
) -> None:
    def run(stage: Stage) -> None:
        with stage.step("Look", expected="something") as step:
            told_before.extend(listener.lines)
            step.saw("it was there", passed=True)

    told_before: list[str] = []
    (result,) = perform(drill(run), stage)

    assert "made-up: a drill of the test" in told_before[0]
    assert ["\n  1. Look", "     expected  something"] == told_before[1:]
    assert ["     happened  it was there", "     pass      after 0.0 s"] == listener.lines[len(told_before) :]
    assert ("made-up", 1, "Look", "something", "it was there", True) == (
        result.drill,
        result.step,
        result.did,
        result.expected,
        result.happened,
        result.passed,
    )


def test_a_step_that_saw_something_else_fails_and_the_drill_goes_on(stage: Stage) -> None:
    def run(stage: Stage) -> None:
        otherwise(stage)
        as_expected(stage)

    assert [(1, False), (2, True)] == [(each.step, each.passed) for each in perform(drill(run), stage)]


def test_a_step_that_nobody_settled_fails(stage: Stage) -> None:
    def run(stage: Stage) -> None:
        with stage.step("Look", expected="something"):
            pass

    assert [False] == [each.passed for each in perform(drill(run), stage)]


def test_a_wait_that_runs_out_is_a_failed_step_that_says_what_was_waited_for(stage: Stage) -> None:
    def run(stage: Stage) -> None:
        with stage.step("Look", expected="a leader") as step:
            stage.wait("a leader", lambda: None, timeout_s=0.1)
            step.saw("a leader", passed=True)
        as_expected(stage)

    (result,) = perform(drill(run), stage)

    assert not result.passed
    assert "waited 0 s in vain for a leader" == result.happened


def test_a_wait_asks_again_after_an_outage_and_names_the_last_one_if_it_runs_out(stage: Stage) -> None:
    answers = iter([BrokerUnavailable("away"), None, "here"])

    def look() -> str | None:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def away() -> None:
        raise BrokerUnavailable("away")

    assert "here" == stage.wait("it", look, timeout_s=10.0)
    with pytest.raises(BrokerUnavailable, match=r"in vain for it \(last: away\)"):
        stage.wait("it", away, timeout_s=0.1)


def test_a_long_wait_is_shown_until_it_is_over(
    stage: Stage, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.lab.drills.drill._TELL_AFTER_S", 0.1)
    shown_while_waiting: list[bool] = []

    def look() -> bool:
        shown_while_waiting.append(listener.open)
        return listener.open

    stage.wait("a long one", look, timeout_s=10.0)

    assert shown_while_waiting[-1]
    assert not listener.open
    assert ["a long one"] == listener.waits


def test_an_error_between_steps_is_a_failed_step_too(stage: Stage) -> None:
    def run(stage: Stage) -> None:
        as_expected(stage)
        raise Conflict("the topic is there already")

    results = perform(drill(run), stage)

    assert [(True, "something"), (False, "the topic is there already")] == [
        (each.passed, each.happened) for each in results
    ]


def test_names_on_a_stage_are_never_given_twice(stage: Stage) -> None:
    stage.begin(drill(as_expected))

    assert 3 == len({stage.name("topic"), stage.name("topic"), stage.name("group")})


def test_shares_are_listed_from_the_largest() -> None:
    assert "2 + 1 + 0" == as_text([0, 2, 1])


def test_drills_are_found_by_name_each_once_and_all_means_every_one() -> None:
    assert list(DRILLS) == [each.name for each in choose(["all", "keys"])]
    assert ["keys", "leaders"] == [each.name for each in choose(["leaders", "keys", "leaders"])]


def test_an_unknown_drill_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(BadInput, match="Did you mean 'leaders'"):
        choose(["keys", "leader"])
    with pytest.raises(BadInput, match="There are keys, leaders"):
        choose(["zzz"])


def test_every_drill_has_a_file_of_its_name_and_a_place_in_the_docs() -> None:
    page = (ROOT / "docs/drills.md").read_text(encoding="utf-8")

    for name in DRILLS:
        assert (ROOT / f"src/penstock/lab/drills/{name.replace('-', '_')}.py").is_file()
        assert f"| `{name}` |" in page


@pytest.fixture
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drills of the test alone, and no Kafka under them."""

    @contextmanager
    def nodes(folder: Path, jar_folder: Path, talk: Callable[[str], None]) -> Iterator[Cluster]:
        talk("starting nothing")
        yield Cluster(folder / "broker", jar_folder)

    monkeypatch.setattr(throwaway, "three_nodes", nodes)
    made_up = {"good": Drill("good", "goes well", "", as_expected), "bad": Drill("bad", "does not", "", otherwise)}
    monkeypatch.setattr(catalog, "DRILLS", made_up)


@pytest.mark.usefixtures("no_cluster")
@pytest.mark.parametrize(("name", "code"), [("good", 0), ("bad", 1), ("all", 1), ("ugly", 2)])
def test_the_exit_code_is_0_if_every_step_passed_1_if_not_and_2_for_a_name_that_is_none(
    name: str, code: int, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    said = CliRunner().invoke(app, ["--home", str(home), "drill", name])

    assert code == said.exit_code, said.output
    assert (code > 0) == ("error:" in said.stderr)
    assert not home.exists() or [] == list(home.iterdir())


@pytest.mark.usefixtures("no_cluster")
def test_json_has_every_step_and_nothing_else_on_stdout(tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["--home", str(tmp_path), "drill", "all", "--json"])

    steps = [StepResult.model_validate(each) for each in json.loads(said.stdout)]
    assert [("good", True), ("bad", False)] == [(each.drill, each.passed) for each in steps]


def test_the_list_has_a_line_for_each_drill_and_takes_no_other_name() -> None:
    said = CliRunner().invoke(app, ["drill", "list"])
    refused = CliRunner().invoke(app, ["drill", "list", "keys"])

    assert list(DRILLS) == [line.split()[0] for line in said.stdout.splitlines()[1:]]
    assert (2, "error: `penstock drill list` takes no other name\n") == (refused.exit_code, refused.stderr)


def test_ctrl_c_is_no_failed_step(stage: Stage) -> None:
    def run(stage: Stage) -> None:
        with stage.step("Look", expected="something"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perform(drill(run), stage)
    assert [] == stage.results
