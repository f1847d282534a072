"""Which modules are the user's own."""

import sys
from pathlib import Path

import pytest

from penstock.steps.user_code import own_modules


def test_modules_of_the_user_are_told_from_those_of_python_and_of_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "brewing.py").write_text("import json, pyarrow\n")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("brewing")

    found = {module.__name__ for module in own_modules()}

    sys.modules.pop("brewing")
    assert "brewing" in found
    assert not {"json", "pyarrow", "pydantic", "pytest", "penstock", "penstock.driver.code_archive", "sys"} & found
