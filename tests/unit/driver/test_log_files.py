"""Logs roll over, whoever has them open."""

import stat
from pathlib import Path

from penstock.driver.log_files import MOST_BYTES, roll_over
from penstock.driver.paths import PipelinePaths


def test_a_log_that_is_open_is_emptied_in_place_and_what_it_held_is_kept_once(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    with log.open("ab", buffering=0) as writer:
        log.chmod(0o600)
        for letter in (b"a", b"b"):
            writer.write(letter * (MOST_BYTES + 1))
            roll_over(log)
        writer.write(b"after\n")

    kept = tmp_path / "driver.log.1"
    assert b"after\n" == log.read_bytes()
    assert b"b" * (MOST_BYTES + 1) == kept.read_bytes()
    assert 0o600 == stat.S_IMODE(kept.stat().st_mode)
    assert {"driver.log", "driver.log.1"} == {each.name for each in tmp_path.iterdir()}


def test_a_small_log_and_one_that_is_not_there_are_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    log.write_bytes(b"x" * MOST_BYTES)

    roll_over(log)
    roll_over(tmp_path / "spark-console.log")

    assert [("driver.log", MOST_BYTES)] == [(each.name, each.stat().st_size) for each in tmp_path.iterdir()]


def test_the_drivers_log_and_sparks_console_roll_over(tmp_path: Path) -> None:
    paths = PipelinePaths(tmp_path)
    paths.logs.mkdir()
    for name in ("driver.log", "spark-console.log"):
        (paths.logs / name).write_bytes(b"x" * (MOST_BYTES + 1))

    paths.roll_logs_over()

    assert {"driver.log": 0, "spark-console.log": 0} == {
        each.name: each.stat().st_size for each in paths.logs.glob("*.log")
    }
