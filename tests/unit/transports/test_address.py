import sys
from subprocess import run

import pytest

from penstock.errors import BadInput, NotFound
from penstock.transports.address import open_transport, parse


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("kafka://127.0.0.1:9092", "kafka://127.0.0.1:9092"),
        ("kafka://", "kafka://"),
        ("redis://", "redis://127.0.0.1:6379"),
        ("redis://cache/3", "redis://cache:6379/3"),
        ("redis-pubsub://cache:7000", "redis-pubsub://cache:7000"),
        ("amqp://me@queue/games?password=env:QUEUE_PASSWORD", "amqp://queue:5672/games"),
        ("amqp://me@queue?tls=system", "amqp://queue:5671"),
    ],
)
def test_an_address_is_shown_with_its_defaults_and_without_its_login(text: str, shown: str) -> None:
    assert shown == str(parse(text))


def test_user_virtual_host_and_the_name_of_the_secret_are_read() -> None:
    address = parse("amqp://a%40b@queue:1/%2Fgames?password=file:/run/secret")

    assert ("a@b", "/games", "Secret(file:/run/secret)") == (address.user, address.path, repr(address.password))


@pytest.mark.parametrize("text", ["nats://127.0.0.1", "127.0.0.1:9092", "http://x", ""])
def test_an_unknown_scheme_is_one_line_that_lists_the_known_ones(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        open_transport(text)

    assert str(caught.value).endswith("Known are: kafka://, redis://, redis-pubsub://, amqp://")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "redis://me:canary-9981@cache",
        "amqp://me:canary-9981@queue?password=env:X",
        "redis://cache?password=canary-9981",
        "redis://cache:canary-9981",
        "kafka://me:canary-9981@broker:9092",
        "kafka://broker:9092?password=canary-9981",
        "redis://cache?canary-9981",
        "redis://cache?password=env:X&canary-9981",
        "redis://cache?password=some&canary-9981=x",
        "redis://me:12#canary-9981@cache",
        "amqp://me:12/canary-9981@queue/games",
        "amqp://me:12?canary-9981@queue",
        "me:canary-9981@redis://cache",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(text)

    assert "canary-9981" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("redis://cache/zero", "a Redis database is a number"),
        ("redis://cache?cert=mine", "takes no other option"),
        ("kafka://broker:9092?tls=system", "takes no 'tls'"),
        ("kafka://broker", "names host:port"),
        ("amqp://me@queue", "asks user 'me' for a password"),
        ("redis://cache:99999", "no valid host and port"),
    ],
)
def test_what_is_wrong_with_an_address_is_said(text: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        open_transport(text)


def test_a_secret_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFound, match="environment variable NO_SUCH_SECRET"):
        open_transport("redis://127.0.0.1:1?password=env:NO_SUCH_SECRET")


def test_no_client_library_is_loaded_before_its_transport_is_opened() -> None:
    program = "import sys, penstock.transports; print(sorted({'redis', 'pika', 'confluent_kafka'} & set(sys.modules)))"

    done = run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "[]\n" == done.stdout


def test_an_ipv6_address_is_written_in_brackets() -> None:
    assert ("redis://[::1]:6379", "[::1]:6379") == (str(parse("redis://[::1]")), parse("redis://[::1]").server)
