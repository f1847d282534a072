"""The same events in Data.Rentgen, whose interface this is: the same answers, but for what docs/lineage.md says.

`DATA_RENTGEN_PYTHON` names a Python that has `data-rentgen[server,consumer]==0.7.2` and `asyncpg`; it takes 3.12.
"""

import json
import os
import re
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from penstock.broker.ports import find_free
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.lineage.api.app import make_app
from penstock.lineage.api.service import Service
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.database import migrate, open_engine

from support import lineage_history
from support.lineage_answers import name_of, named
from support.lineage_samples import event, facet, job_type, parent
from support.lineage_stories import write_in_batches
from support.waiting import until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]
_PYTHON = os.environ.get("DATA_RENTGEN_PYTHON", "")
_LOAD = Path(__file__).parents[3] / "bench" / "peers" / "data_rentgen_load.py"
_SPARK = {"master": "yarn", "appName": "etl", "deployMode": "client", "driverHost": "driver"}  # it asks for these
_INTERVAL = {"data_interval_start": "2026-03-01T00:00:00Z", "data_interval_end": "2026-03-02T00:00:00Z"}
_FAILED = "019cb000-0000-7000-8000-000000000003"
_WINDOW = {"since": "2026-01-01T00:00:00Z"}


def _events() -> list[bytes]:
    """Return what both understand, in the order of times: ids are UUIDv7, and hosts and names are spelt one way.

    What docs/lineage.md names as different is left to `_odd`: one name an operation, no SQL that overwrites, no errors.
    """
    found, names = [], dict[str, str]()
    for value in lineage_history.values(11, 40, malformed=0, twice=0, shuffled=False):
        said = json.loads(re.sub(rb"kafka://[^\"]*", b"kafka://broker-1:9092,broker-2:9092", value))
        started_by = said.get("run", {}).get("facets", {}).get("parent", {})
        ids = [each["run"]["runId"] for each in (said, started_by, started_by.get("root", {})) if "run" in each]
        if ids and all(uuid.UUID(each).version == 7 for each in ids):
            facets = said["run"]["facets"]
            if "spark_applicationDetails" in facets:
                facets["spark_applicationDetails"] |= _SPARK
            for name in {"airflow", "airflowDagRun"} & set(facets):
                facets[name]["dagRun"] |= _INTERVAL
            facets.pop("errorMessage", None)
            said["job"]["name"] = names.setdefault(ids[0], said["job"]["name"])
            sql = said["job"]["facets"].get("sql", {"query": ""})
            sql["query"] = sql["query"].replace("insert overwrite table", "INSERT INTO")
            for each in said["inputs"] + said["outputs"]:
                _settle(each)
            found.append((said["eventTime"], json.dumps(said).encode()))
    return [value for _, value in sorted(found)]


def _settle(dataset: Any) -> None:
    """Spell a dataset one way; one table in two has the same schema in every event."""
    number = re.search(r"t([0-9]+)", dataset["name"].lower())
    dataset["name"] = dataset["name"].lower()
    if number and "topic" not in dataset["name"] and _has_one_schema(number[1]):
        fields = [{"name": name, "type": "string"} for name in lineage_history.COLUMNS[: 2 + int(number[1]) % 4]]
        dataset["facets"]["schema"] = facet(fields=fields)


def _has_one_schema(name: str) -> bool:
    return int(name.rpartition("t")[2]) % 2 == 0


def _odd() -> list[bytes]:
    """Return events that the two take differently, as docs/lineage.md says: about things that nothing else names."""
    run_id = "019cb000-0000-7000-8000-000000000001"
    sql = {"sql": facet(query="INSERT OVERWRITE TABLE t SELECT 1")}
    kind = job_type("SPARK", "SQL_JOB")
    said = parent("019cb000-0000-7000-8000-000000000002", "yarn://odd", "odd")
    table = {"namespace": "postgres://odd:5432", "facets": {}}
    error = {"errorMessage": facet(message="no space", programmingLanguage="JAVA")}
    events = [
        event("FAIL", "2026-03-02T00:00:00Z", _FAILED, ("local://odd", "odd fails"), run_facets=error),
        event("START", "2026-03-02T00:00:00Z", run_id, ("yarn://odd", "odd.second"), run_facets=said, job_facets=kind,
              outputs=[{**table, "name": "Odd.Table"}]),
        event("COMPLETE", "2026-03-02T00:00:09Z", run_id, ("yarn://odd", "odd.first"), run_facets=said,
              job_facets=kind | sql, outputs=[{**table, "name": "odd.table"}]),
    ]  # fmt: skip
    return [json.dumps(each).encode() for each in events]


@contextmanager
def _running(environment: dict[str, str], folder: Path) -> Iterator[httpx.Client]:
    port = find_free("127.0.0.1", 1)[0]
    command = [_PYTHON, "-m", "data_rentgen.server", "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)

    def answers() -> bool:
        assert process.poll() is None, (folder / "server.log").read_text()[-2000:]
        try:
            return client.get("/monitoring/ping").is_success
        except httpx.TransportError:
            return False

    try:
        until(answers, timeout_s=60)
        form = {"username": "ann", "password": "any"}
        token = client.post("/v1/auth/token", data=form).json()["access_token"]
        client.headers["Authorization"] = f"Bearer {token}"
        yield client
    finally:
        client.close()
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def both(postgres: RunningPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    if not _PYTHON:
        pytest.skip("DATA_RENTGEN_PYTHON names no Python that has data-rentgen 0.7.2")
    folder = tmp_path_factory.mktemp("lineage")
    events, server = _events() + _odd(), postgres.database()
    login = f"{server.user}:{server.password.reveal() if server.password else ''}"
    environment = {
        **os.environ,
        "DATA_RENTGEN__DATABASE__URL": f"postgresql+asyncpg://{login}@{server.host}:{server.port}/{server.database}",
        "DATA_RENTGEN__AUTH__PROVIDER": "data_rentgen.server.providers.auth.dummy_provider.DummyAuthProvider",
        "DATA_RENTGEN__AUTH__ACCESS_TOKEN__SECRET_KEY": "secret that is long enough for a digest",
        "DATA_RENTGEN__AUTH__PERSONAL_TOKENS__ENABLED": "false",
        "DATA_RENTGEN__SERVER__STATIC_FILES__ENABLED": "false",
    }
    partitions = ["data_rentgen.db.scripts.create_partitions", "--start", "2026-02-01", "--end", "2026-06-01"]
    for module in (["data_rentgen.db.migrations", "upgrade", "head"], partitions):
        subprocess.run([_PYTHON, "-m", *module], env=environment, cwd=folder, check=True, capture_output=True)
    lines = b"\n".join(events)
    subprocess.run([_PYTHON, str(_LOAD)], env=environment, cwd=folder, input=lines, check=True, capture_output=True)
    address = StoreAddress(store=str(folder / "lineage.db"))
    migrate(address)
    write_in_batches(address, events, 1000)
    engine = open_engine(address)
    with _running(environment, folder) as theirs:
        yield [TestClient(make_app(Service(engine, None)), base_url="http://127.0.0.1"), theirs]
    engine.dispose()


def _all(client: Any, path: str, **parameters: Any) -> list[Any]:
    items: list[Any] = []
    page = 1
    while page:
        answer = client.get(f"/v1/{path}", params={**parameters, "page": page, "page_size": 50})
        assert 200 == answer.status_code, answer.text
        items += answer.json()["items"]
        page = answer.json()["meta"]["next_page"]
    return items


def _comparable(answer: dict[str, list[Any]], granularity: str) -> dict[str, list[Any]]:
    """Leave out which of several schemas sums show, and between datasets whether there are several, or any at all."""
    related = {each[end] for each in answer["inputs"] for end in ("from", "to")}
    for each in answer["datasets"] if granularity != "OPERATION" else ():
        has_one = each["location"]["type"] in {"hive", "postgres"} and _has_one_schema(each["name"])
        if not has_one or (granularity == "DATASET" and f"DATASET {name_of(each)}" not in related):
            del each["schema"]
        elif granularity == "DATASET" and each["schema"] is not None:
            del each["schema"]["relevance_type"]
    return {kind: sorted(some, key=lambda each: json.dumps(each, sort_keys=True)) for kind, some in answer.items()}


def _different(ours: dict[str, list[Any]], theirs: dict[str, list[Any]]) -> dict[str, Any]:
    """Return what is on one side only: ours, then theirs."""
    return {
        kind: ([each for each in some if each not in theirs[kind]], [each for each in theirs[kind] if each not in some])
        for kind, some in ours.items()
        if some != theirs[kind]
    }


@pytest.mark.parametrize("path", ["datasets", "jobs"])
def test_the_same_datasets_and_jobs_have_the_same_lineage(both: list[Any], path: str) -> None:
    asked = [("RUN", "BOTH"), ("JOB", "BOTH")]
    if path == "datasets":
        asked += [("OPERATION", "BOTH"), ("DATASET", "UPSTREAM"), ("DATASET", "DOWNSTREAM")]
    ours, theirs = ({name_of(each["data"]): each["id"] for each in _all(client, path)} for client in both)

    assert sorted(theirs) == sorted(ours)
    for name in sorted(each for each in ours if "odd" not in each):
        for granularity, direction in asked:
            answers = []
            for client, number in zip(both, (ours[name], theirs[name]), strict=True):
                wanted = {**_WINDOW, "start_node_id": number, "granularity": granularity, "direction": direction}
                answer = client.get(
                    f"/v1/{path}/lineage", params={**wanted, "depth": 4, "include_column_lineage": True}
                )
                assert 200 == answer.status_code, answer.text
                answers.append(_comparable(named(answer.json()), granularity))

            assert {} == _different(*answers), (name, granularity, direction)


def test_what_the_two_take_differently_is_what_the_page_says(both: list[Any]) -> None:
    found = []
    for client in both:
        (number,) = (each["id"] for each in _all(client, "datasets") if name_of(each["data"]).endswith("odd.table"))
        wanted = {**_WINDOW, "start_node_id": number, "granularity": "OPERATION", "depth": 1}
        answer = client.get("/v1/datasets/lineage", params=wanted).json()
        (table,), (operation,) = answer["nodes"]["datasets"].values(), answer["nodes"]["operations"].values()
        kinds = {tuple(each["types"]) for each in answer["relations"]["outputs"]}
        (run,) = _all(client, "runs", run_id=_FAILED)
        found.append((table["name"], operation["name"], kinds, run["data"]["end_reason"]))

    ours, theirs = found
    assert ("odd.table", "second", {("OVERWRITE",)}, "no space") == ours
    assert ("Odd.Table", "first", {("APPEND",)}, None) == theirs
