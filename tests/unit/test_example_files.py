"""Where the examples are found."""

from pathlib import Path

import pytest

from penstock import example_files
from penstock.errors import EnvironmentNotReady
from penstock.example_files import examples_folder


def test_examples_that_came_with_the_package_are_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "src" / "penstock"
    monkeypatch.setattr(example_files, "_PACKAGE", package)
    with pytest.raises(EnvironmentNotReady, match="the examples are neither in"):
        examples_folder()
    beside, inside = tmp_path / "examples", package / "examples"
    beside.mkdir(parents=True)
    assert beside == examples_folder()
    inside.mkdir(parents=True)
    assert inside == examples_folder()
