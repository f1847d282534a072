"""Waiting for a change that Kafka accepted."""

import pytest

from penstock.errors import BrokerUnavailable, NotFound
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection


@pytest.fixture
def admin() -> Admin:
    return Admin(Connection(bootstrap_servers="127.0.0.1:1"), timeout_s=0.2)


def test_a_change_is_seen_though_a_look_at_it_failed(admin: Admin) -> None:
    looks = iter(["fails", "too early", "seen"])

    def is_done() -> bool:
        look = next(looks)
        if look == "fails":
            raise BrokerUnavailable("no answer")
        return look == "seen"

    admin.settle(is_done, "creating topic 'orders'")

    assert [] == list(looks)


def test_a_change_that_nobody_sees_is_said_to_be_accepted(admin: Admin) -> None:
    with pytest.raises(
        BrokerUnavailable, match="creating topic 'orders': accepted by Kafka, but not visible"
    ) as raised:
        admin.settle(lambda: False, "creating topic 'orders'")

    assert "Kafka will do it" == raised.value.safe


def test_a_look_that_is_refused_is_no_look_to_repeat(admin: Admin) -> None:
    def is_done() -> bool:
        raise NotFound("there is no such user")

    with pytest.raises(NotFound):
        admin.settle(is_done, "adding user 'eve'")
