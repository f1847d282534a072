"""The introductory example, run as its own comment says."""

import re
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from conftest import Cli, RunningKafka

EXAMPLE = Path(__file__).parents[3] / "examples" / "numbers" / "doubles.py"


def doubled(table: Path) -> list[tuple[int, int]]:
    rows = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return sorted((row["number"], row["doubled"]) for row in rows)


@pytest.fixture
def example(kafka: RunningKafka, cli: Cli, tmp_path: Path) -> Path:
    """Return a copy of the example, whose table goes where the file is; its topic is there."""
    said = cli("topic", "create", "numbers", "--partitions", 3, home=kafka.home)
    assert 0 == said.code, said.err
    return Path(shutil.copy(EXAMPLE, tmp_path))


def test_numbers_of_three_partitions_are_doubled_in_batches_and_what_is_none_is_a_dead_letter(
    kafka: RunningKafka, cli: Cli, example: Path
) -> None:
    table = example.parent / "tables" / "numbers"
    numbers = range(1000)
    for partition in range(3):
        sent = "".join(f"{number}\n" for number in numbers[partition::3]) + ("ten\n" if partition == 0 else "")
        cli("produce", "numbers", "--partition", partition, home=kafka.home, stdin=sent)

    checked = cli("pipeline", "check", example, home=kafka.home)
    first = cli("pipeline", "run", example, "--json", home=kafka.home)
    once = doubled(table)
    printed = cli("pipeline", "logs", "numbers", "--steps", "--lines", 1000, home=kafka.home).out
    again = cli("pipeline", "run", example, "--json", home=kafka.home)
    dead = cli("dead", "list", "--pipeline", "numbers", "--json", home=kafka.home)

    assert (0, 0, 0) == (checked.code, first.code, again.code), first.err + again.err
    assert [(number, 2 * number) for number in numbers] == once == doubled(table)
    assert (1001, 0) == (first.json["events"], again.json["events"])
    assert {"read": 1001, "written": 1000, "dead": 1, "dropped": 0} == first.json["sinks"]["delta"]
    batches = re.findall(r"default batch of (\d+) from partition (\d): \[([\d, ]+)\]", printed)
    assert {"0", "1", "2"} == {partition for _, partition, _ in batches}
    assert 100 == max(int(size) for size, _, _ in batches)
    assert {2 * number for number in numbers} == {int(each) for *_, listed in batches for each in listed.split(",")}
    assert [("handler", "ValueError", 1)] == [(each["stage"], each["error"], each["letters"]) for each in dead.json]
