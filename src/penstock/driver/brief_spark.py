"""A short-lived Spark for previews and the test kit: one core, SQL only, no code generation."""

import atexit
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.driver import class_archive
from penstock.driver import session as sessions
from penstock.driver.session import NOT_COMPILED, Starter
from penstock.jvm.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def starter(overrides: Mapping[str, str]) -> Starter:
    """Return a function that starts it, with the pipeline file's own settings."""
    # A JVM that lives for a moment is over before the better of its two compilers has paid for itself.
    options = f"{class_archive.options(find_java()[0])} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    settings = {**NOT_COMPILED, **overrides}
    return Starter(
        "testing", _log_folder(), master="local[1]", java_options=options, overrides=settings, has_workers=False
    )


def launch_jvm() -> None:
    """Launch the JVM for a pipeline without overrides, and nothing else; the caller ends it if it is not needed."""
    starter({}).launch()


def start(overrides: Mapping[str, str]) -> Callable[[], None]:
    """Start Spark without waiting for it: it comes up while the rest is loaded and opened.

    The function that is returned ends its JVM at once, unless the process had that before.
    """
    global _coming  # noqa: PLW0603 - a process has one Spark
    if sessions.has_jvm():
        return _nothing
    found = starter(overrides)
    found.launch()
    _coming = _Coming(found)
    return sessions.end_at_once


def _nothing() -> None:
    """Do nothing."""


class _Coming:
    """Spark that starts on a thread of its own."""

    def __init__(self, start: Starter) -> None:
        self._start = start
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="penstock-spark-start", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._start()
        except BaseException as error:  # noqa: BLE001 - raised where somebody waits for it
            self._failure = error

    def wait(self) -> None:
        self._thread.join()
        if self._failure is not None:
            raise self._failure


_coming: _Coming | None = None


def session(overrides: Mapping[str, str]) -> "SparkSession":
    """Return Spark, as it is coming up, or started now."""
    if _coming is None:
        return starter(overrides)()
    _coming.wait()
    spark = starter(overrides)()
    sessions.use_here(spark)
    return spark


@cache
def _log_folder() -> Path:
    """Return the folder of the one Spark that this process starts; it goes when the process does."""
    folder = tempfile.mkdtemp(prefix="penstock-spark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
