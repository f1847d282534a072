"""The lineage sink keeps what the conformance suite asks for, in both databases."""

from functools import partial
from pathlib import Path

import pytest

from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.testing.sink_conformance import SinkConformance

from support.lineage_conformance import RowsAsEvents, landed
from support.lineage_store import remove, store_on
from support.postgres_driver import ask


class TestSqlite(SinkConformance):
    kills_in_commit = 1

    @pytest.fixture(autouse=True)
    def _target(self, tmp_path: Path) -> None:
        path = tmp_path / "store" / "lineage.db"
        self.folder, self.model = tmp_path / "scratch", RowsAsEvents(store=str(path))
        self.drop = partial(remove, path)
        self.read = partial(landed, self.model)


class TestPostgres(SinkConformance):
    kills_in_commit = 2

    @pytest.fixture(autouse=True)
    def _target(self, postgres: RunningPostgres, tmp_path: Path) -> None:
        server = postgres.database()
        self.folder, self.model = tmp_path, RowsAsEvents(**store_on(server))
        self.drop = partial(ask, server, "DROP SCHEMA lineage CASCADE")
        self.read = partial(landed, self.model)
