"""The result: a line for each broker, as data and as a table for people."""

import statistics
from collections.abc import Sequence

from pydantic import BaseModel, Field

from penstock.lab.bench.brokers.contenders import Contender, Name
from penstock.lab.bench.brokers.deaths import ReaderDeath, ServerDeath
from penstock.lab.bench.brokers.keeping import Retained
from penstock.lab.bench.brokers.speed import Speed
from penstock.lab.bench.drawing import Panel

_P50, _P99 = 50, 99


class Line(BaseModel, frozen=True):
    """One broker. Ratios are beside Kafka, and None where Kafka was not measured."""

    broker: Name = Field(description="Which.")
    version: str = Field(description="Version of the server.")
    settings: str = Field(description="How it ran.")
    in_per_s: int = Field(description="Events a second until all were accepted; median over the rounds.")
    in_slowest: int = Field(description="Slowest round.")
    in_fastest: int = Field(description="Fastest round.")
    in_ratio: float | None = Field(description="Median beside Kafka; more is faster.")
    out_per_s: int = Field(description="Events a second from the first arrival to the last acknowledgement; median.")
    out_slowest: int = Field(description="Slowest round.")
    out_fastest: int = Field(description="Fastest round.")
    out_ratio: float | None = Field(description="Median beside Kafka; more is faster.")
    lost_at_full_speed: int = Field(description="Events that did not come out in these rounds.")
    p50_ms: float = Field(description="Half of the events were no later, at the fixed rate.")
    p99_ms: float = Field(description="99 of 100 events were no later.")
    p50_ratio: float | None = Field(description="p50 beside Kafka; less is faster.")
    p99_ratio: float | None = Field(description="p99 beside Kafka; less is faster.")
    away_sent: int = Field(description="Events sent while no reader was there.")
    away_lost: int = Field(description="Of these, those that the group did not get when it was back.")
    replayed: int = Field(description="Of these, those that another group got afterwards, from the start.")
    disk_bytes_per_event: int = Field(description="Growth of the server's data folder by these, for each.")
    disk_ratio: float | None = Field(description="Disk beside Kafka; less is smaller.")
    reader_died_sent: int = Field(description="Events sent before, between and after two readers.")
    reader_died_lost: int = Field(description="Of these, never acknowledged by the dead one nor given to the other.")
    reader_died_repeated: int = Field(description="Of these, given to both, or twice.")
    takeover_s: float | None = Field(description="Until the other had one that the dead one had held; None for never.")
    server_died_accepted: int = Field(description="Events that the server had accepted, unread, when it was killed.")
    server_died_lost: int = Field(description="Of these, those that could not be read afterwards.")
    server_died_repeated: int = Field(description="Deliveries beyond the first.")


class Measured(BaseModel, frozen=True, arbitrary_types_allowed=True):
    """All measurements of one broker."""

    contender: Contender = Field(description="Which.")
    speed: Speed = Field(description="The rounds.")
    kept: Retained = Field(description="What it keeps.")
    reader: ReaderDeath = Field(description="A dead reader.")
    server: ServerDeath = Field(description="A dead server.")


def lines(measured: Sequence[Measured]) -> list[Line]:
    """Settle medians, percentiles and ratios."""
    plain = [_line(each) for each in measured]
    kafka = next((line for line in plain if line.broker == "kafka"), None)
    return [_beside(line, kafka) for line in plain] if kafka else plain


def _line(seen: Measured) -> Line:
    speed, kept = seen.speed, seen.kept
    return Line(
        broker=seen.contender.name,
        version=seen.contender.version,
        settings=seen.contender.settings,
        in_per_s=round(statistics.median(speed.in_per_s)),
        in_slowest=round(min(speed.in_per_s)),
        in_fastest=round(max(speed.in_per_s)),
        in_ratio=None,
        out_per_s=round(statistics.median(speed.out_per_s)),
        out_slowest=round(min(speed.out_per_s)),
        out_fastest=round(max(speed.out_per_s)),
        out_ratio=None,
        lost_at_full_speed=speed.lost,
        p50_ms=round(speed.delay_ms(_P50), 2),
        p99_ms=round(speed.delay_ms(_P99), 2),
        p50_ratio=None,
        p99_ratio=None,
        away_sent=kept.sent,
        away_lost=kept.sent - kept.kept,
        replayed=kept.replayed,
        disk_bytes_per_event=round(kept.disk_bytes / kept.sent),
        disk_ratio=None,
        reader_died_sent=seen.reader.sent,
        reader_died_lost=seen.reader.lost,
        reader_died_repeated=seen.reader.repeated,
        takeover_s=None if seen.reader.takeover_s is None else round(seen.reader.takeover_s, 2),
        server_died_accepted=seen.server.accepted,
        server_died_lost=seen.server.lost,
        server_died_repeated=seen.server.repeated,
    )


def _beside(line: Line, kafka: Line) -> Line:
    return line.model_copy(
        update={
            "in_ratio": _ratio(line.in_per_s, kafka.in_per_s),
            "out_ratio": _ratio(line.out_per_s, kafka.out_per_s),
            "p50_ratio": _ratio(line.p50_ms, kafka.p50_ms),
            "p99_ratio": _ratio(line.p99_ms, kafka.p99_ms),
            "disk_ratio": _ratio(line.disk_bytes_per_event, kafka.disk_bytes_per_event),
        }
    )


def _ratio(value: float, beside: float) -> float | None:
    return round(value / beside, 2) if beside else None


def table(result: Sequence[Line]) -> tuple[list[str], list[list[str]]]:
    """Return the columns and the cells of the table for people."""
    rows = {
        "broker": [line.broker for line in result],
        "events/s in": [_with_ratio(f"{line.in_per_s:,}", line.in_ratio) for line in result],
        "events/s out": [_with_ratio(f"{line.out_per_s:,}", line.out_ratio) for line in result],
        "p50 ms": [_with_ratio(f"{line.p50_ms:.1f}", line.p50_ratio) for line in result],
        "p99 ms": [_with_ratio(f"{line.p99_ms:.1f}", line.p99_ratio) for line in result],
        "lost, no reader there": [_of(line.away_lost, line.away_sent) for line in result],
        "lost, reader killed": [_of(line.reader_died_lost, line.reader_died_sent) for line in result],
        "repeated": [f"{line.reader_died_repeated:,}" for line in result],
        "taken over after s": ["never" if line.takeover_s is None else f"{line.takeover_s:.1f}" for line in result],
        "lost, server killed": [_of(line.server_died_lost, line.server_died_accepted) for line in result],
        "replayed": [_of(line.replayed, line.away_sent) for line in result],
        "disk bytes/event": [_with_ratio(f"{line.disk_bytes_per_event:,}", line.disk_ratio) for line in result],
    }
    return list(rows), [list(cells) for cells in zip(*rows.values(), strict=True)]


def _with_ratio(text: str, ratio: float | None) -> str:
    return text if ratio is None else f"{text} ({ratio:g}x)"


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}"


def panels(result: Sequence[Line], rate: int) -> list[Panel]:
    """Return the pictures: one for each measure."""

    def share(part: int, whole: int) -> float:
        return 100 * part / whole if whole else 0.0

    return [
        Panel("In", "events a second, until accepted", {line.broker: line.in_per_s for line in result}),
        Panel("Out", "events a second, until acknowledged", {line.broker: line.out_per_s for line in result}),
        Panel("Delay, half of the events", f"ms at {rate:,} a second", {line.broker: line.p50_ms for line in result}),
        Panel("Delay, 99 of 100 events", f"ms at {rate:,} a second", {line.broker: line.p99_ms for line in result}),
        Panel(
            "Lost when the reader is killed",
            "% of the events sent",
            {line.broker: share(line.reader_died_lost, line.reader_died_sent) for line in result},
        ),
        Panel(
            "Lost when the server is killed",
            "% of the events accepted and not read yet",
            {line.broker: share(line.server_died_lost, line.server_died_accepted) for line in result},
        ),
        Panel(
            "Can be read again",
            "% of the events sent",
            {line.broker: share(line.replayed, line.away_sent) for line in result},
        ),
        Panel("Disk", "bytes an event", {line.broker: line.disk_bytes_per_event for line in result}),
    ]
