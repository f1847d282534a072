"""TLS to real Redis and RabbitMQ servers: spoken where asked for, and refused with the cause named."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from penstock.broker.certificates import Certificates
from penstock.config.secrets_folder import SecretsFolder
from penstock.errors import BadInput, NotFound, Refused, Transient
from penstock.lab.bench.throwaway import running
from penstock.lab.bench.throwaway_rabbitmq import RunningRabbitMQ
from penstock.lab.bench.throwaway_redis import RunningRedis
from penstock.lab.simulator.redis_store import RedisStore
from penstock.transports import Outgoing, open_transport

Server = RunningRedis | RunningRabbitMQ


@pytest.fixture(scope="module", params=["redis_server", "rabbitmq"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that speaks TLS only; skipped where its plain sibling is."""
    request.getfixturevalue(request.param)
    make = {"redis_server": RunningRedis, "rabbitmq": RunningRabbitMQ}[request.param]
    with running(partial(make, tls=True)) as started:
        yield started


def address_of(server: Server) -> str:
    return server.address() if isinstance(server, RunningRedis) else server.address


def trusting(server: Server, tls: str) -> str:
    return address_of(server).partition("&tls=")[0] + (f"&tls={tls}" if tls else "")


def another_ca(folder: Path) -> str:
    files = SecretsFolder.of(folder)
    Certificates(files).ensure_ca()
    return str(files.ca_pem)


def test_messages_go_and_come_over_tls(server: Server) -> None:
    with (
        closing(open_transport(address_of(server))) as transport,
        closing(transport.subscribe("over-tls", "readers")) as subscription,
    ):
        transport.send([Outgoing("over-tls", b"hidden", key="k")])
        received = subscription.receive(10, 120.0)
        subscription.acknowledge(received)

    assert [b"hidden"] == [each.value for each in received]


@pytest.mark.parametrize("server", ["redis_server"], indirect=True)
def test_the_games_of_several_servers_are_kept_over_tls(server: Server, tmp_path: Path) -> None:
    async def check(address: str) -> int:
        store = RedisStore(address)
        try:
            await store.check()
            return await store.games_of("nobody")
        finally:
            await store.close()

    assert not asyncio.run(check(address_of(server)))
    with pytest.raises(Refused, match="is not to be trusted"):
        asyncio.run(check(trusting(server, another_ca(tmp_path))))


def test_a_certificate_that_nobody_vouches_for_is_refused(server: Server, tmp_path: Path) -> None:
    for tls in (another_ca(tmp_path), "system"):
        with pytest.raises(Refused, match="is not to be trusted") as caught:
            open_transport(trusting(server, tls))
        assert "\n" not in str(caught.value)


def test_a_client_without_tls_gets_one_clear_line(server: Server) -> None:
    with pytest.raises(Transient, match="does not answer") as caught:
        open_transport(trusting(server, ""))

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fixture", "kind", "reason"),
    [
        ("rabbitmq", Refused, "does not speak TLS"),
        ("redis_server", Transient, "check whether this port speaks TLS"),
    ],
)
def test_a_server_without_tls_is_suspected(
    fixture: str, kind: type[Exception], reason: str, request: pytest.FixtureRequest
) -> None:
    server: Server = request.getfixturevalue(fixture)

    with pytest.raises(kind, match=reason):
        open_transport(trusting(server, "system"))


def test_a_ca_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").touch()

    with pytest.raises(BadInput, match=r"empty\.pem holds no certificate"):
        open_transport(f"redis://127.0.0.1:1?tls={tmp_path / 'empty.pem'}")
    with pytest.raises(NotFound, match=r"nowhere\.pem"):
        open_transport(f"amqp://127.0.0.1:1?tls={tmp_path / 'nowhere.pem'}")
