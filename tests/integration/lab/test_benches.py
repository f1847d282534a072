"""Every bench at its smallest: it comes to its end, checks what the contenders wrote, and gives its figures."""

import pytest

from conftest import Cli


@pytest.mark.soak
@pytest.mark.parametrize(
    ("command", "figure", "contenders"),
    [
        ("broker --events 10000 --rounds 1", "events_per_s", 6),
        ("pipeline --events 10000 --rounds 1", "events_per_s", 4),
        ("start --rounds 1", "seconds", 3),
        ("growth --events 10000 --events 20000", "us_per_event", 2),
        ("realtime --rate 100 --seconds 5", "p50_ms", 2),
        ("brokers --events 1000 --rounds 1 --seconds 1 --rate 100", "out_per_s", 4),
    ],
)
def test_a_bench_comes_to_its_end_and_gives_its_figures(cli: Cli, command: str, figure: str, contenders: int) -> None:
    said = cli("bench", *command.split(), "--json")

    assert said.code == 0, said.err
    assert len(said.json) == contenders
    assert all(line[figure] > 0 for line in said.json)
