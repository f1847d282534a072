"""Workers one after the other in this process, on one Spark: starting it once costs what a whole table does."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.driver import class_archive, session
from penstock.jvm import jars
from penstock.jvm.java import find_java
from penstock.lab.scenarios.arena import Arena
from penstock.operate import driver
from penstock.operate.status import Status
from penstock.pipeline.load import load


@contextmanager
def one_spark(arena: Arena) -> Iterator[None]:
    """Start the Spark that every worker of the block takes; it is stopped at the end."""
    arena.step("starting Spark", 0, 0)
    delta = jars.ensure("delta", arena.settings.jars)
    # This Spark lives for a minute: code that never gets hot need not be compiled well.
    quick = f"{class_archive.options(find_java()[0])} -XX:TieredStopAtLevel=1"
    spark = session.start("superhero", arena.folder / "spark", master=arena.master, jars=delta, java_options=quick)
    try:
        yield
    finally:
        spark.stop()


def run_workers(arena: Arena, names: Sequence[str]) -> dict[str, Status]:
    """Run workers until each has caught up; return how each ended."""
    done = {}
    for number, name in enumerate(names):
        arena.step(f"worker {name}", number, len(names))
        done[name] = run_file(arena, arena.worker(name))
    return done


def run_file(arena: Arena, file: Path) -> Status:
    """Run the worker of a file until it has caught up, whatever its speed."""
    spec = load(file).model_copy(update={"speed": "scheduled"})
    status = driver.run(spec, arena.settings, file, show=lambda _status: None)
    if status.state == "stopped":
        # The driver finishes its batch on Ctrl+C; here Ctrl+C is meant for the whole run.
        raise KeyboardInterrupt
    return status
