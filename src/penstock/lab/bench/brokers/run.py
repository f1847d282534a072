"""One run: the same events through every broker, in turns; first what warms up and shows what is kept."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.lab.bench.brokers import contenders
from penstock.lab.bench.brokers.contenders import Contender, Name
from penstock.lab.bench.brokers.deaths import ReaderDeath, ServerDeath, reader_death, server_death
from penstock.lab.bench.brokers.game_events import GameEvents
from penstock.lab.bench.brokers.keeping import Retained, keeping
from penstock.lab.bench.brokers.report import Line, Measured, lines
from penstock.lab.bench.brokers.speed import Speed, latency, throughput
from penstock.lab.bench.throwaway_kafka import Step


@dataclass(frozen=True)
class Result:
    """What was measured, and what could not be."""

    lines: list[Line]
    missing: dict[Name, str]
    """Why a broker was left out."""
    mean_bytes: int
    """Bytes of an event, on the average."""


def run(
    home: Path,
    jar_folder: Path,
    *,
    names: Sequence[Name],
    events: int,
    rate: int,
    seconds: float,
    rounds: int,
    step: Step,
) -> Result:
    """Measure. Raises `EnvironmentNotReady` if no broker can be started; every server is stopped at the end."""
    step("playing games", 0, 0)
    games = GameEvents(events)
    reports = home / "reports"
    reports.mkdir()
    with contenders.running(list(names), home, jar_folder, lambda line: step(line, 0, 0)) as (there, missing):
        turns = _Turns(there, 2 * rounds + 3, step)
        kept: dict[Name, Retained] = {}
        speeds: dict[Name, Speed] = {each.name: Speed() for each in there}
        readers: dict[Name, ReaderDeath] = {}
        servers: dict[Name, ServerDeath] = {}

        # Also the warm-up: every event through every broker, and no clock.
        for each in turns.of("what it keeps"):
            kept[each.name] = keeping(each, games, "kept")
        for number in range(1, rounds + 1):
            for each in turns.of(f"round {number} of {rounds}: throughput"):
                live = kept[each.name].kept < kept[each.name].sent
                throughput(each, games, f"throughput-{number}", _folder(reports, each), speeds[each.name], live=live)
            for each in turns.of(f"round {number} of {rounds}: {rate:,} events a second"):
                latency(
                    each,
                    games,
                    f"latency-{number}",
                    _folder(reports, each),
                    speeds[each.name],
                    rate=rate,
                    seconds=seconds,
                )
        for each in turns.of("killing a reader"):
            readers[each.name] = reader_death(each, games, "reader-death", _folder(reports, each))
        for each in turns.of("killing the server"):
            servers[each.name] = server_death(each, games, "server-death")
        measured = [
            Measured(
                contender=each,
                speed=speeds[each.name],
                kept=kept[each.name],
                reader=readers[each.name],
                server=servers[each.name],
            )
            for each in there
        ]
        step("stopping the servers", turns.total, turns.total)
    return Result(lines(measured), missing, games.mean_bytes)


class _Turns:
    """Lets the brokers take turns, and tells how far it is."""

    def __init__(self, there: Sequence[Contender], measures: int, step: Step) -> None:
        self._there = there
        self._step = step
        self._done = 0
        self.total = measures * len(there)

    def of(self, measure: str) -> Iterator[Contender]:
        """Return one after the other."""
        for each in self._there:
            self._step(f"{measure}: {each.name}", self._done, self.total)
            yield each
            self._done += 1


def _folder(reports: Path, contender: Contender) -> Path:
    folder = reports / contender.name
    folder.mkdir(exist_ok=True)
    return folder
