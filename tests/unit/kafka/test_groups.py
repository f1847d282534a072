"""What a group's coordinator answers while it is new or has just moved."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.errors import Conflict, LeaderNotAvailable
from penstock.kafka import groups
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection

MOVED = KafkaError(KafkaError.NOT_COORDINATOR)


class Coordinator:
    """Stands in for librdkafka's client: each call gets the next of the errors, and once they are used up succeeds."""

    def __init__(self, *errors: KafkaError) -> None:
        self.errors = list(errors)
        self.asked = 0

    def _next_error(self) -> KafkaError | None:
        self.asked += 1
        return self.errors.pop(0) if self.errors else None

    def alter_consumer_group_offsets(self, asked: list[Any], **_: float) -> dict[str, Future[Any]]:
        return self._of_a_partition(asked)

    def list_consumer_group_offsets(self, asked: list[Any], **_: Any) -> dict[str, Future[Any]]:
        return self._of_a_partition(asked)

    def _of_a_partition(self, asked: list[Any]) -> dict[str, Future[Any]]:
        found = SimpleNamespace(topic="orders", partition=0, offset=7, error=self._next_error())
        return {asked[0].group_id: answered(SimpleNamespace(topic_partitions=[found]))}

    def describe_consumer_groups(self, asked: list[str], **_: float) -> dict[str, Future[Any]]:
        return {asked[0]: self._of_the_group(SimpleNamespace(members=["one"]))}

    def delete_consumer_groups(self, asked: list[str], **_: float) -> dict[str, Future[Any]]:
        return {asked[0]: self._of_the_group(None)}

    def list_consumer_groups(self, **_: float) -> Future[Any]:
        error = self._next_error()
        return answered(SimpleNamespace(errors=[KafkaException(error)] if error else [], valid=[]))

    def _of_the_group(self, answer: object) -> Future[Any]:
        error = self._next_error()
        if error is None:
            return answered(answer)
        failed: Future[Any] = Future()
        failed.set_exception(KafkaException(error))
        return failed

    def poll(self, _: float) -> None:
        pass


def answered(answer: object) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(answer)
    return future


def admin_of(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, *, timeout_s: float = 15.0) -> Admin:
    monkeypatch.setattr(Admin, "_open", lambda _: coordinator)
    return Admin(Connection(bootstrap_servers="127.0.0.1:1"), timeout_s=timeout_s)


def test_a_position_is_set_although_the_coordinator_has_just_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = Coordinator(MOVED, MOVED)

    groups.commit(admin_of(coordinator, monkeypatch), "billing", {("orders", 0): 7})

    assert coordinator.asked == 3


def test_a_coordinator_that_stays_away_is_an_outage_and_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = admin_of(Coordinator(*[MOVED] * 100), monkeypatch, timeout_s=0.3)

    with pytest.raises(LeaderNotAvailable, match="moving group 'billing'"):
        groups.commit(admin, "billing", {("orders", 0): 7})


def test_a_group_with_members_is_a_conflict_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = Coordinator(KafkaError(KafkaError.UNKNOWN_MEMBER_ID))

    with pytest.raises(Conflict, match="has members"):
        groups.commit(admin_of(coordinator, monkeypatch), "billing", {("orders", 0): 7})

    assert coordinator.asked == 1


def test_positions_members_and_the_list_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert groups.committed(admin_of(Coordinator(MOVED), monkeypatch), "billing") == {("orders", 0): 7}
    assert groups.member_count(admin_of(Coordinator(MOVED), monkeypatch), "billing") == 1
    assert groups.list_groups(admin_of(Coordinator(MOVED), monkeypatch)) == []


def test_a_group_is_deleted_although_the_coordinator_has_just_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = Coordinator(MOVED)

    groups.delete(admin_of(coordinator, monkeypatch), "billing")

    assert coordinator.asked == 2
