"""The pages of the documentation, typed as they stand there, block after block in one folder."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from penstock.broker.cluster import Cluster
from penstock.lab.bench.throwaway_redis import RunningRedis
from penstock.services import control

from support.page_shell import PageShell
from support.pages import PAGES, SLOW_PAGES

Typed = Callable[..., str]


@pytest.fixture
def typed(tmp_path: Path, jar_folder: Path, request: pytest.FixtureRequest) -> Iterator[Typed]:
    """Type a page in an empty folder. What it starts is stopped, whatever happens."""

    def type_page(page: str, *, installed: bool) -> str:
        addresses = {}
        if page in {"docs/superhero.md", "docs/transports.md"}:
            server: RunningRedis = request.getfixturevalue("redis_server")
            addresses["redis://127.0.0.1:6379/0"] = server.address()
        with PageShell(tmp_path, installed=installed, addresses=addresses) as shell:
            return shell.type(page)

    yield type_page
    for state in tmp_path.glob("**/.penstock/broker/cluster.json"):
        for name in control.known_services(state.parents[1]):
            control.stop(state.parents[1], name)
        Cluster(state.parent, jar_folder).down()


@pytest.mark.usefixtures("spark")
def test_readme_works_when_typed_and_lands_what_its_comments_say(typed: Typed, tmp_path: Path) -> None:
    said = typed("README.md", installed=False)

    for each in ("ada", "bob", "SchemaMismatch", '"id": 5'):
        assert each in said
    table = DeltaTable(str(tmp_path / "shop" / "tables" / "orders"))
    assert [1, 2, 4, 5] == sorted(table.to_pyarrow_table().column("id").to_pylist())


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("page", PAGES)
def test_a_page_works_when_typed(typed: Typed, page: str) -> None:
    typed(page, installed=False)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", ["README.md", *PAGES, *SLOW_PAGES])
def test_a_page_works_when_typed_with_penstock_as_it_is_installed(typed: Typed, page: str) -> None:
    typed(page, installed=True)
