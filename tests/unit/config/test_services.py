from pathlib import Path

import pytest
from pydantic import ValidationError

from penstock.config.local_services import ServiceState, load, local_service
from penstock.config.project import load as load_project
from penstock.config.services import RegistryService, Services, SimulatorService
from penstock.errors import BadInput, Conflict, NotFound


def written(folder: Path, text: str) -> Path:
    path = folder / "penstock.yaml"
    path.write_text(text)
    return path


def test_a_key_alone_is_a_service_with_every_default(tmp_path: Path) -> None:
    found = load_project(written(tmp_path, "services:\n  registry:\n  connect: {port: 9083}\n")).services

    assert RegistryService() == found.registry
    assert ["registry", "connect"] == list(found.named())
    assert {} == Services().named()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("services: {registri: }", "registri"),
        ("services: {connect: {plugins: [debezium]}}", "'debezium' is not group:artifact:version"),
        (
            "services: {registry: {database: {url: 'postgresql://me:secret@h/d', username: me, password: 'env:P'}}}",
            "user and password have keys of their own",
        ),
        ("services: {registry: {heap: 1MB}}", "heap"),
    ],
)
def test_a_mistake_is_told_in_one_line_without_what_may_be_a_secret(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadInput) as raised:
        load_project(written(tmp_path, text))

    assert told in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_way_to_a_service_has_a_login_only_where_the_cluster_is_secure(tmp_path: Path) -> None:
    folder = tmp_path / "services" / "registry"
    ServiceState(name="registry", host="127.0.0.1", port=8081, inner_port=1, secure=False).save(folder)
    plain = local_service(tmp_path, "registry")
    ServiceState(name="registry", host="127.0.0.1", port=8081, inner_port=1, secure=True).save(folder)
    secure = local_service(tmp_path, "registry")

    assert ("http://127.0.0.1:8081", None) == (plain.url, plain.username)
    assert ("https://127.0.0.1:8081", "registry") == (secure.url, secure.username)


def test_a_service_that_was_never_started_is_not_found_and_a_damaged_file_is_a_conflict(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"penstock up connect"):
        local_service(tmp_path, "connect")
    (tmp_path / "services" / "connect").mkdir(parents=True)
    (tmp_path / "services" / "connect" / "service.json").write_text("{")
    with pytest.raises(Conflict, match="damaged"):
        load(tmp_path, "connect")


def test_a_command_of_ours_is_for_this_machine_and_a_console_takes_its_usual_port(tmp_path: Path) -> None:
    found = load_project(written(tmp_path, "services: {console: , simulator: {players: 4}}\n")).services

    assert ["console", "simulator"] == list(found.named())
    assert found.console is not None
    assert (None, 8080) == (found.console.port, found.console.usual_port)
    with pytest.raises(BadInput, match="for others, start it by its own command"):
        load_project(written(tmp_path, "services: {console: {host: 192.0.2.1}}\n"))


def test_a_pipeline_is_a_name_a_file_or_both_with_what_it_needs(tmp_path: Path) -> None:
    text = "pipelines:\n  a:\n  b: other.yaml\n  c: {file: sub/c.yaml, needs: [a, console]}\nservices: {console: }\n"
    found = load_project(written(tmp_path, text)).pipelines

    assert [None, tmp_path / "other.yaml", tmp_path / "sub/c.yaml"] == [each.file for each in found.values()]
    assert ("a", "console") == found["c"].needs


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "pipelines: {orders: {}, daily: {needs: [oders]}}",
            "pipelines.daily.needs: pipeline 'daily' needs 'oders', .*; did you mean 'orders'",
        ),
        ("pipelines: {a: {needs: [b]}}", "pipeline 'a' needs 'b', which is not another part of this file"),
        ("pipelines: {console: }\nservices: {console: }", "'console' is the name of two parts"),
        ("pipelines: {kafka: }", "'kafka' is the name of two parts"),
    ],
)
def test_parts_are_told_apart_by_their_names(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        load_project(written(tmp_path, text))


def test_several_game_servers_need_a_redis_to_share_their_games(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="share their games in Redis"):
        load_project(written(tmp_path, "services: {simulator: {servers: 2}}\n"))
    text = "services: {simulator: {servers: 2, state: 'redis://127.0.0.1:6379/0'}}\n"
    assert load_project(written(tmp_path, text)).services.simulator is not None


@pytest.mark.parametrize(
    "state",
    [
        "redis://app:canary@127.0.0.1:6379/0",
        "redis://:canary@127.0.0.1:6379/0",
        "redis://app:can?ary@127.0.0.1:6379/0",
        "redis://127.0.0.1:6379/0?password=canary",
    ],
)
def test_a_password_of_the_simulators_redis_is_named_and_not_written(state: str) -> None:
    with pytest.raises(ValidationError, match="a password is not written here") as raised:
        SimulatorService(state=state)

    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(
    "state",
    [
        "redis://127.0.0.1:6379/0",
        "redis://app@127.0.0.1:6379/0?password=env:REDIS_PASSWORD",
        "redis://[::1]:6379/0?password=file:/run/redis&tls=system",
    ],
)
def test_a_redis_with_a_named_password_or_none_is_taken(state: str) -> None:
    assert state == SimulatorService(state=state).state
