from pathlib import Path

import pytest

from penstock.config.local_services import folder_of
from penstock.connect.cdc import Capture
from penstock.connect.client import Connector
from penstock.connect.connectors import forget_secrets, shown, with_named_secrets
from penstock.errors import BadInput
from penstock.services.connect import secrets_folder
from penstock.sinks.postgres_server import Server


def test_a_secret_goes_into_a_private_file_and_its_name_into_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "canary")

    found = with_named_secrets("shop", {"database.password": "env:SHOP_PASSWORD", "topic": "t"}, tmp_path)

    folder = secrets_folder(folder_of(tmp_path, "connect"))
    assert {"database.password": f"${{directory:{folder}:shop@database.password}}", "topic": "t"} == found
    assert b"canary" == (folder / "shop@database.password").read_bytes()
    assert 0o600 == (folder / "shop@database.password").stat().st_mode & 0o777


def test_a_secret_that_has_a_name_already_stays_as_it_is(tmp_path: Path) -> None:
    config = {"database.password": "${directory:/secrets:shop}"}

    assert config == with_named_secrets("shop", config, tmp_path)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"database.password": "canary"}, "the setting database.password: a secret is not written here"),
        ({"connection.url": "jdbc://u:canary@host/x"}, "the setting connection.url holds a password"),
        ({"database.password": "${canary"}, "the setting database.password: a secret is not written here"),
        ({"value.converter.basic.auth.user.info": "u:canary"}, "basic.auth.user.info: a secret is not written here"),
        ({"producer.override.ssl.keystore.key": "canary"}, "ssl.keystore.key: a secret is not written here"),
        ({"only.the.plugin.knows": "canary"}, "only.the.plugin.knows: a secret is not written here"),
    ],
)
def test_a_password_that_is_written_out_is_refused_and_not_repeated(
    tmp_path: Path, config: dict[str, str], says: str
) -> None:
    with pytest.raises(BadInput, match=says) as raised:
        with_named_secrets("shop", config, tmp_path, known={"only.the.plugin.knows"})

    assert "canary" not in str(raised.value)


def test_a_password_that_somebody_else_has_written_out_is_not_shown() -> None:
    settings = {"database.password": "canary", "url": "jdbc://u:canary@host/x", "topic": "t"}
    named = {"database.password": "${directory:/secrets:shop}"}

    assert ["(hidden)", "(hidden)", "t"] == [shown(*each) for each in settings.items()]
    assert list(named.values()) == [shown(*each) for each in named.items()]


def test_a_connectors_name_leads_to_no_file_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "canary")

    with_named_secrets("../../../stolen", {"password": "env:SHOP_PASSWORD"}, tmp_path)

    folder = secrets_folder(folder_of(tmp_path, "connect"))
    assert [folder / "..%2F..%2F..%2Fstolen@password"] == [each for each in tmp_path.rglob("*") if each.is_file()]


def test_secrets_of_a_connector_go_with_it_and_those_of_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "canary")
    for name in ("shop", "shop.eu", "shop2"):
        with_named_secrets(name, {"password": "env:SHOP_PASSWORD"}, tmp_path)

    forget_secrets("shop", tmp_path)
    forget_secrets("unknown", tmp_path / "nowhere")

    folder = secrets_folder(folder_of(tmp_path, "connect"))
    assert {"shop.eu@password", "shop2@password"} == {each.name for each in folder.iterdir()}


def test_a_connector_runs_if_it_and_all_of_its_tasks_do() -> None:
    made = Connector(name="c", type="source", state="RUNNING", tasks="1/1")

    assert made.is_running
    assert not made.model_copy(update={"tasks": "0/1"}).is_running
    assert not made.model_copy(update={"tasks": "0/0"}).is_running
    assert made.model_copy(update={"trace": "java.lang.Error"}).has_failed


def test_the_cause_of_a_trace_is_its_last_one() -> None:
    trace = "A: outer\n\tat x\nCaused by: B: middle\n\tat y\nCaused by: C: inner\n\tat z"

    def cause(trace: str) -> str:
        return Connector(name="c", type="source", state="FAILED", tasks="0/1", trace=trace).cause

    assert "C: inner" == cause(trace)
    assert "A: outer" == cause("A: outer\n\tat x")
    assert "" == cause("")


def test_the_topic_of_a_table_has_a_name_that_kafka_takes() -> None:
    capture = Capture(name="shop", server=Server(database="d", user="u"), tables=["public.große orders"])

    assert "shop.public.gro_e_orders" == capture.topic("public.große orders")
