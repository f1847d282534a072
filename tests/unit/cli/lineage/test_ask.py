import json
import re
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import uvicorn
from typer.testing import CliRunner, Result

from penstock.cli import app
from penstock.lineage.api.app import make_app
from penstock.lineage.api.service import Service
from penstock.lineage.graph import Edge, Graph, Node
from penstock.lineage.keys import NO_HOST
from penstock.lineage.picture import svg
from penstock.lineage.store import tables
from penstock.lineage.store.address import StoreAddress, default_path
from penstock.lineage.store.database import migrate, open_engine
from penstock.listening import Server, listen

from support.lineage_rows import NOON, Rows

_TIME = ["--since", "2026-01-01", "--until", "2026-12-31"]
Run = Callable[..., Result]


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Rows]:
    """A store as `penstock lineage migrate` makes it: a topic, landed into a table, from which a report is made."""
    address = StoreAddress(store=str(default_path(tmp_path)))
    migrate(address)
    engine = open_engine(address)
    rows = Rows(engine)
    topic, table = rows.dataset("orders"), rows.dataset("/data/tables/orders", rows.location("file", "host"))
    report = rows.dataset("mart.report", rows.location("hive", "meta"))
    _, operation = rows.flow(rows.job("landing.batch", "BATCH"), topic, table, num_rows=10)
    rows.flow(rows.job("daily"), table, report, num_rows=3)
    facet = {"batch": 3, "offsets": [{"topic": "orders", "partition": 0, "start": 90, "end": 100}]}
    rows.put(tables.run_facet, run_id=operation, name="penstock_batch", value=json.dumps(facet), seen_at=NOON)
    yield rows
    engine.dispose()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return lambda *arguments: CliRunner().invoke(app, ["--home", str(tmp_path), "lineage", *map(str, arguments)])


@pytest.fixture
def service(stored: Rows) -> Iterator[str]:
    answering = make_app(Service(stored.engine, sign_in=None))
    listener = listen("127.0.0.1", 0, "lineage")
    ready = threading.Event()
    server = Server(uvicorn.Config(answering, log_config=None, access_log=False), ready.set)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    assert ready.wait(120)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.mark.usefixtures("stored")
def test_a_table_is_told_with_its_topic_its_pipeline_its_batch_and_offsets(run: Run) -> None:
    said = run("of", "tables/orders", *_TIME)

    assert 0 == said.exit_code, said.output
    lines = [line.strip(" │├└─") for line in said.stdout.splitlines()]
    assert [
        "/data/tables/orders  file://host",
        "comes from",
        "landing.batch  BATCH  append, 10 rows, 2026-03-01 12:00",
        "orders  kafka://broker:9092  10 rows, 2026-03-01 12:00",
        "goes to",
        "daily  SPARK_APPLICATION  3 rows, 2026-03-01 12:00",
        "mart.report  hive://meta  append, 3 rows, 2026-03-01 12:00",
    ] == lines
    assert ["batch 3 at 2026-03-01T12:00:00Z: 10 rows from orders/0 offsets 90 to 99"] == said.stderr.splitlines()


def test_a_folder_without_a_host_is_just_a_file(stored: Rows, run: Run) -> None:
    local = stored.dataset("/data/local", stored.location("file", NO_HOST))
    stored.flow(stored.job("copying"), local, stored.dataset("copies"), num_rows=1)

    said = run("of", "/data/local", *_TIME)

    assert "/data/local  file" == said.stdout.splitlines()[0]


def test_rows_of_what_is_no_table_are_not_looked_for(stored: Rows, run: Run, tmp_path: Path) -> None:
    files = stored.dataset(str(tmp_path), stored.location("file", "host"))
    topic = run("of", "orders", *_TIME, "--row", "id = 7")
    folder = run("of", f"dataset:{files}", *_TIME, "--row", "id = 7")

    for said, name, number in ((topic, "orders", 1), (folder, str(tmp_path), files)):
        assert 2 == said.exit_code
        assert f"--row looks into Delta and Iceberg tables on this machine, and {name} is none" in said.stderr
        assert f"See which batches wrote it with: penstock lineage of dataset:{number}" in said.stderr


@pytest.mark.usefixtures("stored")
def test_from_and_to_show_one_way(run: Run) -> None:
    up, down = run("from", "mart.report", *_TIME), run("to", "dataset:1", *_TIME, "--by", "dataset")

    assert ["mart.report", "daily", "/data/tables/orders", "landing.batch", "orders"] == _names(up)
    assert ["orders", "/data/tables/orders", "mart.report"] == _names(down)


@pytest.mark.usefixtures("stored")
def test_of_what_comes_from_nowhere_it_is_said_so(run: Run) -> None:
    said = run("from", "orders", *_TIME)

    assert ["orders", "comes from nothing that is known"] == _names(said)


def _names(said: Result) -> list[str]:
    return [line.strip(" │├└─").split("  ")[0] for line in said.stdout.splitlines()]


def test_the_service_answers_as_the_store_does(service: str, run: Run) -> None:
    for command in (
        ["of", "tables/orders", *_TIME],
        ["from", "mart.report", *_TIME, "--by", "operation"],
        ["to", "job:1", *_TIME],
        ["runs", "daily", *_TIME],
        ["search", "orders"],
        ["columns", "mart.report", *_TIME],
    ):
        direct, by_service = run(*command, "--json"), run(*command, "--json", "--url", service)

        assert (0, direct.stdout) == (by_service.exit_code, by_service.stdout), by_service.output
        assert json.loads(direct.stdout) is not None


@pytest.mark.usefixtures("stored")
def test_runs_and_search_are_tables_for_people(run: Run) -> None:
    runs, found = run("runs", *_TIME), run("search", "landing")

    assert ["landing.batch", "daily"] == [name for name in ("landing.batch", "daily") if name in runs.stdout]
    assert re.search(r"job +1 +landing\.batch +yarn://cluster", found.stdout)


def test_columns_are_told_with_what_is_made_of_them(stored: Rows, run: Run) -> None:
    fingerprint = uuid.uuid4()
    for number, (source, target, use) in enumerate([("amount", "total", 16), ("day", None, 256)]):
        values = {"source_column": source, "target_column": target, "type": use}
        stored.put(tables.column_relation, fingerprint=fingerprint, number=number, **values)
    run_id = stored.run(2)
    ends = {"source_dataset_id": 2, "target_dataset_id": 3, "fingerprint": fingerprint, "job_id": 2, "run_id": run_id}
    stored.put(tables.column_lineage, created_at=NOON, operation_id=stored.operation(run_id), **ends)

    said = run("columns", "mart.report", *_TIME, "--json")

    table = "/data/tables/orders"
    assert [
        {"column": "total", "from": "amount", "dataset": table, "how": "AGGREGATION"},
        {"column": "*", "from": "day", "dataset": table, "how": "GROUP_BY"},
    ] == json.loads(said.stdout)


def test_names_that_would_steer_a_terminal_are_shown_and_not_obeyed(stored: Rows, run: Run, tmp_path: Path) -> None:
    evil = stored.dataset("evil\x1b[2J<script>&\u202e[bold]")
    stored.flow(stored.job("bad\x07job"), evil, 3)

    said = run("of", f"dataset:{evil}", *_TIME, "--picture", tmp_path / "evil.svg")
    drawn = (tmp_path / "evil.svg").read_text()

    assert 0 == said.exit_code, said.output
    for written in (said.stdout, drawn):
        assert not {"\x1b", "\x07", "\u202e"} & set(written)
    assert r"evil\u001b[2J<script>&\u202e[bold]" in said.stdout
    assert "<script>" not in drawn
    ElementTree.fromstring(drawn)  # noqa: S314 - we wrote it


def test_ids_that_a_service_elsewhere_has_made_up_are_text_in_a_picture_too() -> None:
    one, other = 'DATASET:1"><script>a</script>', "JOB:2"
    edge = Edge(one, other, "read")
    graph = Graph({one: Node(one, "DATASET", "a", "b"), other: Node(other, "JOB", "c", "d")}, [edge], {one: [edge]}, {})

    drawn = svg(graph, one)

    assert "<script>" not in drawn
    ElementTree.fromstring(drawn)  # noqa: S314 - we wrote it


def test_no_proxy_of_the_environment_reads_what_is_asked_of_this_machine(
    service: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("personal_token_secret")
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.settimeout(0)
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        said = run("of", "tables/orders", *_TIME, "--url", service, "--token-file", tmp_path / "token")

        assert 0 == said.exit_code, said.output
        with pytest.raises(BlockingIOError):
            proxy.accept()


@pytest.mark.usefixtures("stored")
def test_a_picture_has_a_box_for_each_node_and_a_line_for_each_edge(run: Run, tmp_path: Path) -> None:
    said = run("of", "tables/orders", *_TIME, "--picture", tmp_path / "lineage.svg")
    drawn: Any = ElementTree.fromstring((tmp_path / "lineage.svg").read_text())  # noqa: S314 - we wrote it
    of = "{http://www.w3.org/2000/svg}"

    assert f"picture in {tmp_path / 'lineage.svg'}" in said.stderr
    boxes = [float(each.get("x")) for each in drawn.iter(f"{of}rect") if each.get("x")]
    assert (5, 5) == (len(boxes), len(set(boxes)))  # a chain: each in a layer of its own
    assert 4 == len([each for each in drawn.iter(f"{of}path") if each.get("marker-end")])
    png = run("of", "tables/orders", *_TIME, "--picture", tmp_path / "lineage.png")
    assert 0 == png.exit_code, png.output
    assert (tmp_path / "lineage.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("command", "exit_code", "said"),
    [
        (["of", "nothing_like_it", *_TIME], 3, "no dataset and no job is called 'nothing_like_it'"),
        (["of", "xy"], 2, "'xy' is too short a name"),
        (["of", "orders", "--since", "soon"], 2, "--since is a time such as"),
        (["of", "orders", "--since", "2026-02-01", "--until", "2026-01-01"], 2, "--since is before --until"),
        (["of", "dataset:1", "--depth", "11"], 2, "at most 10"),
        (["of", "dataset:1", "--picture", "x.gif"], 2, "a name ends with .svg or .png"),
        (["columns", "daily"], 2, "'daily' is not a dataset"),
        (["runs", "mart.report"], 2, "'mart.report' is not a job"),
        (["of", "orders", "--url", "ftp://x"], 2, "the address of a lineage service is like http://HOST:PORT"),
        (["of", "orders", "--url", "http://ann:canary@x"], 2, "https://HOST, without a login. Name a personal token"),
        (["of", "orders", "--url", "http://ann:12/canary@x"], 2, "https://HOST, without a login"),
        (["of", "orders", "--url", "http://x/?token=canary"], 2, "https://HOST, without a login"),
        (["of", "orders", "--url", "http://127.0.0.1:1"], 4, "http://127.0.0.1:1 does not answer"),
    ],
)
@pytest.mark.usefixtures("stored")
def test_what_cannot_be_answered_is_one_line(run: Run, command: list[str], exit_code: int, said: str) -> None:
    ended = run(*command)

    assert exit_code == ended.exit_code, ended.output
    assert said in ended.stderr
    assert 1 == len(ended.stderr.splitlines())


def test_several_of_one_name_are_listed_and_a_whole_address_says_which(stored: Rows, run: Run) -> None:
    other = stored.dataset("mart.report", stored.location("hive", "other"))

    several = run("of", "mart.report", *_TIME)
    one = run("of", "hive://other/mart.report", *_TIME)

    assert 2 == several.exit_code
    assert f"dataset:3 in hive://meta, dataset:{other} in hive://other" in several.stderr
    assert ["mart.report"] == _names(one)[:1]


def test_without_a_store_it_is_said_how_to_make_one(run: Run, tmp_path: Path) -> None:
    ended = run("of", "orders")

    assert 3 == ended.exit_code
    assert "there is no lineage store" in ended.stderr
    assert f"penstock lineage migrate --store {default_path(tmp_path)}" in ended.stderr


def test_users_are_added_with_a_password_that_only_their_file_has(run: Run, tmp_path: Path) -> None:
    added = json.loads(run("user", "add", "ann", "--json").stdout)
    password = Path(added["password_file"]).read_text().strip()

    assert '[\n  "ann"\n]\n' == run("user", "list", "--json").stdout
    assert password not in (tmp_path / "lineage" / "users").read_text()
    assert 2 == run("user", "add", "../ann").exit_code
    assert 0 == run("user", "remove", "ann").exit_code
    assert not Path(added["password_file"]).exists()


@pytest.mark.usefixtures("stored")
def test_outside_this_machine_nobody_is_served_before_somebody_can_sign_in(run: Run) -> None:
    ended = run("serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104 - refused

    assert 2 == ended.exit_code
    assert "nobody could sign in" in ended.stderr
    assert "penstock lineage user add NAME" in ended.stderr
