import pytest
from pydantic import ValidationError

from penstock.kafka.connection import TUNABLE_SETTINGS, Connection
from penstock.kafka.security import Scram
from penstock.secret import Secret


def refusal(error: ValidationError) -> str:
    (problem,) = error.errors()
    return problem["msg"].removeprefix("Value error, ")


@pytest.mark.parametrize(
    "name",
    [
        "plugin.library.paths",
        "sasl.kerberos.kinit.cmd",
        "ssl.engine.location",
        "ssl.providers",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.config",
        "sasl.jaas.config",
        "sasl.password",
        "security.protocol",
        "bootstrap.servers",
        "enable.ssl.certificate.verification",
        "ssl.endpoint.identification.algorithm",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "auto.offset.reset",
        "isolation.level",
        "enable.idempotence",
        "acks",
        "request.required.acks",
        "log_level",
        "debug",
        "",
        "CLIENT.ID",
        "client.id ",
    ],
)
def test_a_setting_that_is_not_on_the_list_is_refused(name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Connection(bootstrap_servers="a:1", client_settings={name: "x"})

    assert refusal(caught.value).startswith(f"'{name}' may not be set here")


def test_one_forbidden_setting_among_allowed_ones_is_found() -> None:
    with pytest.raises(ValidationError) as caught:
        Connection(bootstrap_servers="a:1", client_settings={"client.id": "x", "acks": "1", "client.rack": "r"})

    assert refusal(caught.value).startswith("'acks' may not be set here")


def test_a_mistyped_setting_is_answered_with_the_nearest_allowed_one() -> None:
    expected = "'socket.timout.ms' may not be set here; did you mean 'socket.timeout.ms'?"

    with pytest.raises(ValidationError) as caught:
        Connection(bootstrap_servers="a:1", client_settings={"socket.timout.ms": 1000})

    assert expected == refusal(caught.value)


def test_every_tunable_setting_reaches_the_client() -> None:
    settings: dict[str, str | int | bool] = dict.fromkeys(TUNABLE_SETTINGS, 1)

    actual = Connection(bootstrap_servers="a:1", client_settings=settings).librdkafka()

    assert {**settings, "bootstrap.servers": "a:1", "security.protocol": "plaintext"} == actual


def test_a_setting_keeps_its_type() -> None:
    settings: dict[str, str | int | bool] = {
        "socket.keepalive.enable": True,
        "socket.timeout.ms": 1000,
        "client.id": "7",
    }

    actual = Connection(bootstrap_servers="a:1", client_settings=settings).librdkafka()

    assert [True, 1000, "7"] == [actual[name] for name in settings]
    assert [bool, int, str] == [type(actual[name]) for name in settings]


def test_the_login_is_part_of_the_clients_settings() -> None:
    security = Scram(username="orders", password=Secret.of("canary-5"))

    actual = Connection(bootstrap_servers="a:1", security=security).librdkafka()

    expected = {
        "bootstrap.servers": "a:1",
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "orders",
        "sasl.password": "canary-5",
    }
    assert expected == actual


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("localhost:9092", "localhost:9092"),
        ("kafka_1.example-x.com:65535", "kafka_1.example-x.com:65535"),
        ("127.0.0.1:1", "127.0.0.1:1"),
        ("[::1]:9092", "[::1]:9092"),
        (" a:1 , b:2,, ", "a:1,b:2"),
    ],
)
def test_servers_are_taken_and_tidied(given: str, expected: str) -> None:
    assert expected == Connection(bootstrap_servers=given).bootstrap_servers


@pytest.mark.parametrize("given", ["", " ", ",", " , "], ids=["empty", "blank", "comma", "blank comma"])
def test_no_server_at_all_is_refused(given: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Connection(bootstrap_servers=given)

    assert "name at least one server as host:port" == refusal(caught.value)


@pytest.mark.parametrize(
    "server",
    [
        "a",
        "a:",
        ":9092",
        "a:999999",
        "a:-1",
        "a:x",
        "a b:1",
        "a:1 b:2",
        "::1:9092",
        "kafka://a:1",
        "PLAINTEXT://a:1",
        "user:word@a:1",
        "a:1/x",
        "a;b:1",
        "a\nb:1",
    ],
)
def test_what_is_not_host_and_port_is_refused_and_not_repeated(server: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Connection(bootstrap_servers=f"good:9092,{server}")

    expected = "a server is named as host:port, without a user or a password, server 2 of 2"
    assert expected == refusal(caught.value)


@pytest.mark.parametrize("port", [0, 65536, 99999])
def test_a_port_that_there_cannot_be_is_refused_with_those_that_there_are(port: int) -> None:
    with pytest.raises(ValidationError) as caught:
        Connection(bootstrap_servers=f"good:{port}")

    assert "a port is a number from 1 to 65535" == refusal(caught.value)
