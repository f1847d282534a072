"""One interface over Kafka, Redis and RabbitMQ: every message once, in order per key, until it is acknowledged."""

from contextlib import closing

from penstock.transports import Outgoing

from support.endpoints import ALL, KEEPING, Endpoint, by_key, collect, each, numbered


@each(ALL)
def test_every_message_arrives_once_and_in_order_per_key(endpoint: Endpoint) -> None:
    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as subscription:
        endpoint.transport.send(numbered(endpoint.topic, 1500))

        found = collect(subscription, 1500)

    assert {f"k{key}": list(range(key, 1500, 3)) for key in range(3)} == by_key(found)


@each(KEEPING)
def test_the_key_arrives_and_a_message_without_one_has_none(endpoint: Endpoint) -> None:
    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as subscription:
        endpoint.transport.send(
            [Outgoing(endpoint.topic, b"\x00\xff", "schlüssel"), Outgoing(endpoint.topic, b"plain")]
        )

        found = collect(subscription, 2)

    assert {(b"\x00\xff", "schlüssel"), (b"plain", None)} == {(message.value, message.key) for message in found}


@each(KEEPING)
def test_what_was_acknowledged_does_not_come_again_and_the_rest_does(endpoint: Endpoint) -> None:
    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as first:
        endpoint.transport.send(numbered(endpoint.topic, 30))
        done = collect(first, 30)
        first.acknowledge(done)
        endpoint.transport.send([Outgoing(endpoint.topic, f"k0:{number}".encode(), "k0") for number in range(100, 110)])
        assert 10 == len(collect(first, 10))
    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as second:
        again = collect(second, 10)
        second.acknowledge(again)

        assert {"k0": list(range(100, 110))} == by_key(again)
        assert [] == second.receive(100, 0.5)


@each(["rabbitmq", "streams"])
def test_messages_are_acknowledged_one_by_one_too(endpoint: Endpoint) -> None:
    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as first:
        endpoint.transport.send(numbered(endpoint.topic, 5))
        found = collect(first, 5)
        first.acknowledge(found[1:2])
        first.acknowledge(found[3:])
    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as second:
        assert [b"k0:0", b"k2:2"] == sorted(message.value for message in collect(second, 2))


@each(KEEPING)
def test_two_groups_each_get_everything(endpoint: Endpoint) -> None:
    with (
        closing(endpoint.transport.subscribe(endpoint.topic, "ones")) as ones,
        closing(endpoint.transport.subscribe(endpoint.topic, "others")) as others,
    ):
        endpoint.transport.send(numbered(endpoint.topic, 60))

        assert by_key(collect(ones, 60)) == by_key(collect(others, 60))


@each(ALL)
def test_an_idle_topic_gives_nothing_within_the_time_allowed(endpoint: Endpoint) -> None:
    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as subscription:
        assert [] == subscription.receive(10, 0.1)
