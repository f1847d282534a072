"""The smallest example, run as its own comment says."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from conftest import Cli, RunningKafka

EXAMPLE = Path(__file__).parents[3] / "examples" / "numbers" / "numbers.yaml"


def doubled(table: Path) -> list[int]:
    found: list[int] = DeltaTable(str(table)).to_pyarrow_table().column("doubled").to_pylist()
    return sorted(found)


@pytest.fixture
def example(kafka: RunningKafka, cli: Cli, tmp_path: Path) -> Path:
    """Give a copy of the example, whose table goes where the file is; its topic is there."""
    said = cli("topic", "create", "numbers", home=kafka.home)
    assert 0 == said.code, said.err
    return Path(shutil.copy(EXAMPLE, tmp_path))


def test_numbers_are_doubled_in_batches_of_100_and_what_is_none_is_a_dead_letter(
    kafka: RunningKafka, cli: Cli, example: Path
) -> None:
    table = example.parent / "tables" / "numbers"
    sent = "".join(f"{number}\n" for number in range(1, 251)) + "ten\n"

    checked = cli("pipeline", "check", example, home=kafka.home)
    cli("produce", "numbers", home=kafka.home, stdin=sent)
    first = cli("pipeline", "run", example, "--json", home=kafka.home)
    once = doubled(table)
    again = cli("pipeline", "run", example, "--json", home=kafka.home)
    dead = cli("dead", "list", "--pipeline", "numbers", "--json", home=kafka.home)

    assert (0, 0, 0) == (checked.code, first.code, again.code), first.err + again.err
    assert [2 * number for number in range(1, 251)] == once == doubled(table)
    assert (3, 251, 0) == (first.json["batch"], first.json["events"], again.json["events"])
    assert {"read": 251, "written": 250, "dead": 1, "dropped": 0} == first.json["sinks"]["delta"]
    assert [("sql", "SqlFailed", 1)] == [(each["stage"], each["error"], each["letters"]) for each in dead.json]
