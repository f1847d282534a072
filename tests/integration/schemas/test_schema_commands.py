"""`penstock schema` against a real registry."""

import json
from pathlib import Path
from typing import Any

from penstock.config.local_services import ServiceAddress

from conftest import Cli

SUBJECT = "commands-value"


def written(folder: Path, *fields: Any) -> str:
    (folder / "order.avsc").write_text(json.dumps({"type": "record", "name": "Order", "fields": list(fields)}))
    return "order.avsc"


def test_a_schema_is_registered_checked_compared_and_deleted(
    registry: ServiceAddress, cli: Cli, tmp_path: Path
) -> None:
    def schema(*words: str) -> Any:
        return cli("schema", *words, PENSTOCK_REGISTRY_URL=registry.url)

    number = {"name": "id", "type": "long"}
    first = schema("register", SUBJECT, written(tmp_path, number), "--json")
    again = schema("register", SUBJECT, "order.avsc")
    written(tmp_path, number, {"name": "needed", "type": "string"})
    checked, refused = schema("check", SUBJECT, "order.avsc"), schema("register", SUBJECT, "order.avsc")
    written(tmp_path, number, {"name": "note", "type": ["null", "string"], "default": None})
    fitting, second = schema("check", SUBJECT, "order.avsc", "--json"), schema("register", SUBJECT, "order.avsc")
    compared, shown = schema("diff", SUBJECT), schema("show", SUBJECT, "--version", "1", "--json")
    listed = [each for each in schema("list", "--json").json if each["subject"] == SUBJECT]
    schema("compatibility", SUBJECT, "--set", "FULL")
    level = schema("compatibility", SUBJECT, "--json")
    asked, deleted = schema("delete", SUBJECT), schema("delete", SUBJECT, "--permanent", "--yes")
    gone = schema("show", SUBJECT)

    schema_id = first.json["id"]
    assert {"subject": SUBJECT, "version": 1, "id": schema_id, "is_new": True} == first.json
    assert f"'{SUBJECT}' has this schema already: version 1, id {schema_id}\n" == again.err
    assert (1, 6) == (checked.code, refused.code)
    broken = (
        "breaks those who read records of version 1 with the new schema: needed: was not written, and has no default"
    )
    assert [broken, f"'{SUBJECT}', which asks for BACKWARD, would not take this schema"] == checked.err.splitlines()
    assert "Nothing was registered" in refused.err
    assert (0, True, []) == (fitting.code, fitting.json["is_compatible"], fitting.json["breakages"])
    assert f"registered as version 2 of '{SUBJECT}'" in second.err
    assert '+      "name": "note",' in compared.out.splitlines()
    assert (schema_id, "AVRO") == (shown.json["id"], shown.json["format"])
    assert [(2, "AVRO", "BACKWARD")] == [(each["versions"], each["format"], each["compatibility"]) for each in listed]
    assert {"subject": SUBJECT, "compatibility": "FULL", "is_own": True} == level.json
    assert (1, 0, 3) == (asked.code, deleted.code, gone.code)


def test_a_registry_that_is_none_or_away_is_one_clear_line(cli: Cli) -> None:
    away = cli("schema", "list", "--registry", "http://127.0.0.1:1")
    wrong = cli("schema", "list", "--registry", "127.0.0.1:1")
    unnamed = cli("schema", "list")

    assert [4, 2, 3] == [away.code, wrong.code, unnamed.code]
    assert away.err.startswith("error: the schema registry at http://127.0.0.1:1 does not answer: Connection refused.")
    assert "Start the project's own with: penstock up registry" in away.err
    assert wrong.err.startswith("error: the schema registry: ")
    assert unnamed.err.startswith("error: no schema registry is named. Start one with: penstock up --registry")
