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
        ("lineage --events 1000 --rounds 1", "events_per_s", 2),
        ("lineage-growth --events 1000", "events_per_s", 1),
        ("realtime --rate 100 --seconds 5", "p50_ms", 2),
        ("brokers --events 1000 --rounds 1 --seconds 1 --rate 100", "out_per_s", 4),
    ],
)
def test_a_bench_comes_to_its_end_and_gives_its_figures(cli: Cli, command: str, figure: str, contenders: int) -> None:
    said = cli("bench", *command.split(), "--json")

    assert said.code == 0, said.err
    assert len(said.json) == contenders
    assert all(line[figure] > 0 for line in said.json)


@pytest.mark.soak
def test_the_bench_of_sending_lineage_finds_all_in_the_topic_and_refuses_nothing(cli: Cli) -> None:
    said = cli("bench", "lineage-sending", "--events", "200", "--spike", "5000", "--json")

    assert said.code == 0, said.err
    assert [200] * 3 == [line["events"] for line in said.json["sending"]]
    assert (5000, 0) == (said.json["spike"]["events"], said.json["spike"]["refused"])
