import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.driver import class_archive
from penstock.errors import EnvironmentNotReady


def test_an_archive_that_takes_too_long_is_the_machines_fault_and_no_defect(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def hangs(command: list[str], **_: Any) -> None:
        raise subprocess.TimeoutExpired(command, 300)

    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    monkeypatch.setattr(class_archive, "find_java", lambda: (Path(sys.executable), 17))
    monkeypatch.setattr(subprocess, "run", hangs)

    with pytest.raises(EnvironmentNotReady, match=r"it took more than 300 seconds\. Everything works without"):
        class_archive.make()

    assert [] == list(tmp_path.rglob("*.jsa"))
