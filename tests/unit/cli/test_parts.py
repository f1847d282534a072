from typing import Any, cast

import pytest

from penstock.cli import parts
from penstock.cli.tables import render


def test_the_port_of_a_node_has_no_commas_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    node = {"node": 1, "state": "running", "port": 30821, "memory_mb": 289}
    monkeypatch.setattr(parts, "nodes", lambda _: [node])
    for kind in ("services", "connectors", "pipelines"):
        monkeypatch.setattr(parts, kind, lambda _: [])

    shown = render(parts.WATCHED, parts.watched(cast("Any", None)))

    assert "port 30821" in shown[-1]
