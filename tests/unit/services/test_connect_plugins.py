import os
from pathlib import Path

import pytest

from penstock.services import connect_plugins


def test_a_plugin_that_was_fetched_is_used_by_the_next_project_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = []

    def fetch(dependencies: str, folder: Path, *_: object, **_options: object) -> str:
        if "tar.gz" not in dependencies:
            fetched.append(dependencies)
            (folder / "org.example__sink-1.0.jar").write_bytes(b"a plugin")
            (folder / "org.example__needed-2.0.jar").write_bytes(b"what it needs")
        return "the repository does not have it"

    monkeypatch.setattr(connect_plugins, "resolve_with_ivy", fetch)
    before = os.umask(0)
    try:
        for project in ("one", "other"):
            assert connect_plugins.ensure("org.example:sink:1.0", tmp_path / project, tmp_path / "cache")
            assert not connect_plugins.ensure("org.example:sink:1.0", tmp_path / project, tmp_path / "cache")
    finally:
        os.umask(before)

    assert 1 == len(fetched)
    kept = tmp_path / "cache" / "plugin-org.example__sink__1.0"
    assert {0o755, 0o644} == {path.stat().st_mode & 0o777 for path in (kept, *kept.iterdir())}
