import sys
from pathlib import Path

import pytest

from penstock.lab.bench.lineage_peer import find_python


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python is new enough itself")
def test_where_no_python_is_new_enough_none_is_found_and_none_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path))

    assert find_python() is None
