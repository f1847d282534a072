"""Unit tests start no JVM, and so no broker: they find a Java that only says so, and wait for no Kafka."""

import functools
import os
from pathlib import Path

import pytest
import typer.testing

from penstock.kafka import failures

# Each `CliRunner.invoke` would put all commands together again, which takes longer than what most of its tests do.
typer.testing._get_command = functools.cache(typer.testing._get_command)  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def folder_of_no_java(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("no-java")
    java = folder / "java"
    java.write_text("#!/bin/sh\necho 'a unit test starts Java: it belongs to tests/integration' >&2\nexit 1\n")
    java.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def no_java(folder_of_no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test by itself: the next one of this process may be one that runs a JVM."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{folder_of_no_java}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture(autouse=True)
def no_patience_with_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """Believe at once that no broker is there: no unit test has one."""
    monkeypatch.setattr(failures, "_PATIENCE_S", 0.05)
