"""What `penstock up` does with the parts of a project; the parts here only note what is done with them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.config.services import Services
from penstock.config.settings import Settings, load
from penstock.errors import BrokerUnavailable
from penstock.services.control import LocalServices
from penstock.system import record
from penstock.system.part import Kind, Part
from penstock.system.parts import Parts
from penstock.system.system import System

PROJECT = """
services: {console: , gateway: }
pipelines: {combat: , podium: {needs: [combat]}}
"""


@dataclass
class Noted:
    """A part that comes up at once, unless it is told not to."""

    name: str
    kind: Kind
    done: list[str]
    needs: tuple[str, ...] = ()
    version: str = "1"
    runs: bool = False
    fails: bool = False

    def digest(self) -> str:
        return self.version

    def is_running(self) -> bool:
        return self.runs

    def start(self) -> None:
        self.done.append(f"start {self.name}")
        self.runs = True

    def wait(self) -> str:
        if self.fails:
            raise BrokerUnavailable(f"{self.name} does not answer")
        self.done.append(f"wait for {self.name}")
        return f"{self.name} is ready"

    def stop(self) -> None:
        self.done.append(f"stop {self.name}")
        self.runs = False


@dataclass
class Lab:
    """A system of four noted parts."""

    settings: Settings
    done: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts = {
            "gateway": Noted("gateway", "service", self.done),
            "console": Noted("console", "service", self.done),
            "combat": Noted("combat", "pipeline", self.done),
            "podium": Noted("podium", "pipeline", self.done, needs=("combat",)),
        }

    def system(self) -> System:
        made = System(self.settings, [], Services(), _no_services)
        made.parts = dict[str, Part](self.parts)
        return made

    def up(self, names: list[str] | None = None) -> dict[str, str]:
        made = self.system()
        steps = made.plan(names)
        self.done.clear()
        self.told: list[str] = []
        self.outcome = made.carry_out(steps, self.told.append)
        return {step.part: step.action for step in steps}


def _no_services() -> LocalServices:
    raise AssertionError


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "penstock.yaml").write_text(PROJECT)
    return Lab(load())


def test_all_are_started_before_any_is_waited_for_except_what_others_need(lab: Lab) -> None:
    lab.up()

    assert [
        *("start gateway", "start console", "start combat", "wait for combat", "start podium"),
        *("wait for gateway", "wait for console", "wait for podium"),
    ] == lab.done
    assert ["combat", "gateway", "console", "podium"] == lab.outcome.ready


def test_the_second_time_only_what_differs_is_restarted(lab: Lab) -> None:
    lab.up()
    lab.parts["console"].version = "2"

    assert {"gateway": "keep", "console": "restart", "combat": "keep", "podium": "keep"} == lab.up()
    assert ["stop console", "start console"] == [each for each in lab.done if "console" in each][:2]
    assert "start gateway" not in lab.done


def test_a_part_that_has_gone_from_the_file_is_stopped_unless_parts_are_named(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.up()
    gone = lab.parts.pop("gateway")
    monkeypatch.setattr("penstock.system.parts.Parts.recorded", _always(gone))
    named = lab.up(["console"])
    steps = lab.up()

    assert {"console": "keep"} == named
    assert "stop" == steps["gateway"]
    assert not gone.runs
    assert "gateway" not in record.load(lab.settings.home).parts


def test_a_connector_that_has_gone_from_the_file_is_stopped_as_soon_as_its_worker_which_begins_with_it_is_ready(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.parts = {
        "connect": Noted("connect", "service", lab.done),
        "lines": Noted("lines", "connector", lab.done, needs=("connect",)),
    }
    former = Noted("former", "connector", lab.done, needs=("connect",))
    with record.changing(lab.settings.home) as known:
        known.note(former)
    monkeypatch.setattr("penstock.system.parts.Parts.recorded", _always(former))
    steps = lab.up()

    assert {"connect": "start", "former": "stop", "lines": "start"} == steps
    assert ["start connect", "wait for connect", "stop former", "start lines", "wait for lines"] == lab.done
    assert {"connect": "keep", "lines": "keep"} == lab.up()


def test_a_connector_that_cannot_be_stopped_because_its_worker_is_not_ready_is_stopped_the_next_time(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.parts = {"connect": Noted("connect", "service", lab.done, fails=True)}
    former = Noted("former", "connector", lab.done, needs=("connect",))
    with record.changing(lab.settings.home) as known:
        known.note(former)
    monkeypatch.setattr("penstock.system.parts.Parts.recorded", _always(former))
    lab.up()

    assert {"connect", "former"} == lab.outcome.failed.keys()
    assert "former" in record.load(lab.settings.home).parts


def test_commands_at_the_same_time_each_put_their_parts_on_record(lab: Lab) -> None:
    def note(number: int) -> None:
        with record.changing(lab.settings.home) as known:
            known.note(Noted(f"part{number}", "service", []))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(note, range(40)))

    assert {f"part{number}" for number in range(40)} == record.load(lab.settings.home).parts.keys()


def test_a_part_that_does_not_come_up_keeps_back_only_those_that_need_it(lab: Lab) -> None:
    lab.parts["combat"].fails = True
    lab.up()

    assert ["gateway", "console"] == lab.outcome.ready
    assert "combat does not answer" == lab.outcome.failed["combat"].what
    assert "pipeline 'podium' was not started: it needs combat" == lab.outcome.failed["podium"].what


def test_everything_is_stopped_the_other_way_round(lab: Lab) -> None:
    lab.up()
    lab.done.clear()
    stopped = lab.system().stop()

    assert ["podium", "combat", "console", "gateway"] == stopped
    assert {"stop podium", "stop combat"} == set(lab.done[:2])
    assert ["stop console", "stop gateway"] == lab.done[2:]
    assert [] == lab.system().stop()


def test_one_part_is_stopped_and_no_other(lab: Lab) -> None:
    lab.up()
    lab.done.clear()

    assert ["console"] == lab.system().stop(["console"])
    assert ["stop console"] == lab.done


def _always(part: Noted) -> Callable[..., Noted]:
    return lambda *_given: part


def test_a_console_that_shows_other_clusters_than_before_is_another_part(tmp_path: Path) -> None:
    file = tmp_path / "penstock.yaml"

    def digests(clusters: str) -> dict[str, str]:
        file.write_text(f"services: {{console: , gateway: }}\n{clusters}")
        settings = load(project_file=file, home=tmp_path / "home")
        parts = Parts(settings, (), lambda: pytest.fail("nothing is started"), print)
        return {name: part.digest() for name, part in parts.wanted(settings.project.services).items()}

    before, after = digests(""), digests("clusters: {staging: {bootstrap_servers: 'kafka:9093'}}")

    assert ["console"] == [name for name in before if before[name] != after[name]]
