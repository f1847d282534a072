import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from penstock.config import cluster_state
from penstock.delivery import gaps
from penstock.delivery.checkpoint import Checkpoint, Committed
from penstock.delivery.durable import read_versioned, write_versioned
from penstock.delivery.gaps import Gap
from penstock.driver.rate import Override
from penstock.errors import FormatNotUnderstood
from penstock.kafka.connection import Connection
from penstock.operate import history, status
from penstock.record.columns import COORDINATES, RESERVED
from penstock.record.formats import HEADER, require_format, version_of
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.delta import Delta
from penstock.sinks.json import Json
from penstock.sinks.sink import SinkContext, Staged

TP = SourcePartition("orders", "id-1", 0)
OTHERS = [
    pytest.param(2, "2", id="newer"),
    pytest.param(0, "0", id="older"),
    pytest.param(None, "0", id="without one"),
    pytest.param(True, "True", id="no number"),
]


def rewrite(path: Path, version: Any) -> bytes:
    """Return the file, or each of its lines, another version."""
    lines = path.read_bytes().splitlines() if path.suffix == ".jsonl" else [path.read_bytes()]
    changed = [orjson.loads(line) | {"format": version} for line in lines]
    if version is None:
        changed = [{key: value for key, value in each.items() if key != "format"} for each in changed]
    path.write_bytes(b"".join(orjson.dumps(each, option=orjson.OPT_APPEND_NEWLINE) for each in changed))
    return path.read_bytes()


@pytest.mark.parametrize(("version", "shown"), OTHERS)
@pytest.mark.parametrize("name", ["metadata.json", "planned.json", "committed.json"])
def test_a_checkpoint_of_another_version_is_refused_and_left_as_it_is(
    name: str, version: Any, shown: str, tmp_path: Path
) -> None:
    checkpoint = Checkpoint(tmp_path / "p" / "checkpoint", "p")
    checkpoint.create(Committed(0, {TP: 0}))
    checkpoint.plan(1, [OffsetRange(TP, 0, 5)])
    path = checkpoint.folder / name
    content = rewrite(path, version)

    with pytest.raises(FormatNotUnderstood) as caught:
        _ = checkpoint.exists

    assert (
        f"{path} has format version {shown}, and this Penstock understands 1."
        " Nothing was read from it and nothing was changed. Use the Penstock that wrote it, or move"
        f" {checkpoint.folder} away and run: penstock pipeline rebuild p" == str(caught.value)
    )
    assert content == path.read_bytes()


def test_a_pipeline_does_not_begin_over_what_another_version_has_committed(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "p" / "checkpoint", "p")
    checkpoint.commit(Committed(3, {TP: 0}))
    rewrite(checkpoint.folder / "committed.json", 2)

    with pytest.raises(FormatNotUnderstood, match=r"committed\.json has format version 2"):
        _ = checkpoint.exists


def a_gap(folder: Path) -> Path:
    gaps.record(folder, [Gap.of("p", TP, (0, 5), "retention", "skip-gap")])
    return folder / "gaps.jsonl"


def a_status(folder: Path) -> Path:
    status.Status(pipeline="p", state="running", pid=1, file="p.yaml").save(folder)
    return folder / "status.json"


def a_rate(folder: Path) -> Path:
    Override(rate=None).save(folder)
    return folder / "rate.json"


def a_cluster(folder: Path) -> Path:
    cluster_state.ClusterState(
        cluster_id="x",
        kafka_version="4",
        host="127.0.0.1",
        secure=False,
        heap_bytes=1,
        replication=1,
        first_nodes=1,
        next_node_id=2,
        nodes=(),
    ).save(folder)
    return folder / "cluster.json"


FILES = [
    pytest.param(a_gap, gaps.ranges, id="gaps"),
    pytest.param(a_status, status.load, id="status"),
    pytest.param(a_rate, Override.load, id="rate"),
    pytest.param(a_cluster, cluster_state.load, id="cluster"),
]


@pytest.mark.parametrize(("version", "shown"), OTHERS)
@pytest.mark.parametrize(("make", "load"), FILES)
def test_a_file_of_another_version_is_refused_by_name_and_left_as_it_is(
    make: Callable[[Path], Path], load: Callable[[Path], object], version: Any, shown: str, tmp_path: Path
) -> None:
    path = make(tmp_path)
    assert load(tmp_path)
    content = rewrite(path, version)

    with pytest.raises(FormatNotUnderstood) as caught:
        load(tmp_path)

    assert f"{path} has format version {shown}, and this Penstock understands 1" in caught.value.what
    assert content == path.read_bytes()


def test_nothing_is_recorded_behind_gaps_of_another_version(tmp_path: Path) -> None:
    content = rewrite(a_gap(tmp_path), 2)

    with pytest.raises(FormatNotUnderstood, match=r"line 1 of .*gaps\.jsonl has format version 2"):
        a_gap(tmp_path)

    assert content == (tmp_path / "gaps.jsonl").read_bytes()


@pytest.mark.parametrize("version", [0, 2])
def test_a_record_of_runs_of_another_version_is_refused_and_does_not_stop_a_driver(
    version: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running = status.Status(pipeline="p", state="running", pid=1, file="p.yaml")
    history.RunRecord(tmp_path, running)
    with sqlite3.connect(tmp_path / "penstock.db") as store:
        store.execute(f"PRAGMA user_version = {version}")

    record = history.RunRecord(tmp_path, running)
    record.end()
    with pytest.raises(FormatNotUnderstood) as caught:
        history.runs(tmp_path, "p", 10)

    assert 1 == capsys.readouterr().err.count(f"penstock.db has format version {version}")
    assert "Use the Penstock that wrote it, or move it away; the next run begins a new one" == caught.value.fix
    with sqlite3.connect(tmp_path / "penstock.db") as store:
        assert [(1,)] == store.execute("SELECT count(*) FROM runs").fetchall()


def test_what_is_written_with_a_version_is_read_without_it(tmp_path: Path) -> None:
    write_versioned(tmp_path / "x.json", 7, {"a": 1})

    assert {"format": 7, "a": 1} == orjson.loads((tmp_path / "x.json").read_bytes())
    assert {"a": 1} == read_versioned(tmp_path / "x.json", 7)


@pytest.mark.parametrize(
    ("headers", "version"),
    [
        ([], None),
        ([("own", b"1")], None),
        ([(HEADER, b"1"), ("own", b"1")], None),
        ([("own", b"1"), (HEADER, b"12")], 12),
        ([(HEADER, b"one")], "one"),
        ([(HEADER, b"\xb2")], "\ufffd"),
        ([(HEADER, "²".encode())], "²"),
        ([(HEADER, None)], ""),
        ([(HEADER, b"9" * 5000)], "9" * 5000),
    ],
)
def test_only_the_last_header_says_the_version_of_a_record(
    headers: list[tuple[str, bytes | None]], version: object
) -> None:
    assert version == version_of(headers)


def test_a_version_that_is_nonsense_is_refused_in_one_short_line() -> None:
    with pytest.raises(FormatNotUnderstood) as caught:
        require_format("it", "1\n" + "x" * 5000, 1)

    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


SCHEMA = pa.schema([("id", pa.int64()), *(RESERVED.field(name) for name in COORDINATES)])


def land(model: Delta | Json, folder: Path, start: int = 0) -> None:
    """Write one row, as a driver does."""
    sink = model.open(SinkContext("out", "p", Connection(bootstrap_servers="127.0.0.1:1"), folder, lambda: None))  # type: ignore[arg-type,return-value]
    try:
        sink.open(SCHEMA)
        expected = sink.positions([TP]) or {}
        stager = sink.stager()(OffsetRange(TP, start, start + 1))
        row = {"id": start, "_topic_id": TP.topic_id, "_partition": 0, "_offset": start}
        stager.write(pa.RecordBatch.from_pylist([row], SCHEMA), pa.array([start]))
        sink.prepare([Staged(OffsetRange(TP, start, start + 1), 1, stager.finish())], {TP: expected.get(TP)})
        sink.commit()
    finally:
        sink.close()


def files_in(folder: Path) -> dict[str, bytes]:
    kept = (path for path in folder.rglob("*") if path.is_file() and path.name not in {"lock", ".penstock.lock"})
    return {str(path): path.read_bytes() for path in kept}


@pytest.mark.parametrize("version", ["2", "0", "one"])
def test_a_delta_table_of_another_version_is_refused_and_not_written_to(version: str, tmp_path: Path) -> None:
    model = Delta(path=tmp_path / "table")
    land(model, tmp_path)
    table = DeltaTable(str(model.path))
    assert {"penstock.format": "1"} == table.metadata().configuration
    table.alter.set_table_properties({"penstock.format": version}, raise_if_not_exists=False)
    before = files_in(tmp_path)

    with pytest.raises(FormatNotUnderstood) as caught:
        land(model, tmp_path, 1)

    assert f"the table {model.path} has format version {version}, and this Penstock understands 1" == caught.value.what
    assert caught.value.fix == (
        "Use the Penstock that wrote it, or set its property `penstock.format` back if somebody changed it, or write to"
        " another path"
    )
    assert before == files_in(tmp_path)


def test_a_delta_table_with_positions_and_without_a_version_is_an_older_one(tmp_path: Path) -> None:
    model = Delta(path=tmp_path / "table")
    DeltaTable.create(str(model.path), SCHEMA)
    position = [Transaction("penstock/p/out/id-1/0", 1)]
    DeltaTable(str(model.path)).create_write_transaction(
        [], "append", SCHEMA, commit_properties=CommitProperties(app_transactions=position)
    )

    with pytest.raises(FormatNotUnderstood, match=f"the table {model.path} has format version 0"):
        land(model, tmp_path, 1)


def test_a_delta_table_that_somebody_else_has_made_says_the_version_once_it_is_written_to(tmp_path: Path) -> None:
    model = Delta(path=tmp_path / "table")
    DeltaTable.create(str(model.path), SCHEMA, configuration={"delta.appendOnly": "true"})

    land(model, tmp_path)
    land(model, tmp_path, 1)

    table = DeltaTable(str(model.path))
    assert {"delta.appendOnly": "true", "penstock.format": "1"} == table.metadata().configuration
    assert [0, 1] == sorted(table.to_pyarrow_table().column("id").to_pylist())


@pytest.mark.parametrize(("version", "shown"), OTHERS)
def test_a_folder_of_json_files_of_another_version_is_refused_and_not_written_to(
    version: Any, shown: str, tmp_path: Path
) -> None:
    model = Json(path=tmp_path / "files")
    land(model, tmp_path)
    rewrite(model.path / ".newest.json", version)
    before = files_in(model.path)

    with pytest.raises(FormatNotUnderstood) as caught:
        land(model, tmp_path, 1)

    assert f"{model.path}/.newest.json has format version {shown}, and this Penstock understands 1" == caught.value.what
    assert before == files_in(model.path)
