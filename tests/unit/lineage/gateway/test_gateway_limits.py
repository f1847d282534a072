"""Memory, requests and events a second have an end; a gateway that others reach has a token."""

from contextlib import ExitStack

import pytest
from pydantic import ValidationError

from penstock.lineage.gateway import limits as gateway_limits
from penstock.lineage.gateway.counts import Counts
from penstock.lineage.gateway.limits import Buffer, Rate
from penstock.lineage.gateway.options import GatewayLimits, GatewayOptions
from penstock.lineage.gateway.refusal import Refusal
from penstock.secret import Secret


def test_a_full_buffer_refuses_and_what_is_answered_makes_room() -> None:
    buffer = Buffer(GatewayLimits(buffer_max_bytes=2**20, inflated_max_bytes=2**19))
    with buffer.request("192.0.2.1") as first, buffer.request("192.0.2.2") as second:
        first.take(2**19)
        second.take(2**19)
        with buffer.request("192.0.2.3") as third, pytest.raises(Refusal) as caught:
            third.take(1)

    assert (503, 1, 0, 0) == (caught.value.status, caught.value.retry_after_s, buffer.bytes, buffer.requests)


def test_requests_beyond_the_limit_are_refused() -> None:
    buffer = Buffer(GatewayLimits(requests_max=1))
    with buffer.request("192.0.2.1"), pytest.raises(Refusal) as caught, buffer.request("192.0.2.2"):
        pass

    assert (503, 0) == (caught.value.status, buffer.requests)


def test_bodies_that_one_address_sends_slowly_leave_room_for_others() -> None:
    buffer = Buffer(GatewayLimits(buffer_max_bytes=2**20, inflated_max_bytes=2**18, requests_max=8))
    refused = []
    with ExitStack() as open_requests:
        for number in range(8):
            try:
                share = open_requests.enter_context(buffer.request(f"2001:db8::{number}"))
                share.take(2**18)
            except Refusal as refusal:
                refused.append(refusal.message)
        other = open_requests.enter_context(buffer.request("192.0.2.1"))
        other.take(2**19)

    assert {
        "This address has half of the gateway's buffer; nothing was written",
        "Too many requests come from this address; nothing was written",
    } == set(refused)
    assert (0, 0) == (buffer.bytes, buffer.requests)
    assert 0 == len(buffer._bytes_of) + len(buffer._requests_of)


def test_one_body_of_the_greatest_size_fits_into_a_small_buffer() -> None:
    buffer = Buffer(GatewayLimits(buffer_max_bytes=2**20, inflated_max_bytes=2**20))
    with buffer.request("192.0.2.1") as share:
        share.take(2**20)

        assert 2**20 == share.held


def test_an_address_that_sends_too_much_is_told_when_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("penstock.lineage.gateway.limits.time.monotonic", lambda: now[0])
    rate = Rate(GatewayLimits(rate_events_per_s=10))
    rate.spend("a", 35)
    rate.spend("b", 1)
    with pytest.raises(Refusal) as caught:
        rate.spend("a", 1)
    now[0] += 2.6
    rate.spend("a", 1)

    assert (429, 3) == (caught.value.status, caught.value.retry_after_s)


def test_the_table_of_addresses_is_bounded() -> None:
    rate = Rate(GatewayLimits(rate_events_per_s=10))
    for number in range(gateway_limits._ADDRESSES + 10):
        rate.spend(str(number), 1)

    assert gateway_limits._ADDRESSES == len(rate._left)


def test_a_gateway_that_others_reach_needs_a_token() -> None:
    with pytest.raises(ValidationError, match="needs a token"):
        GatewayOptions(host="0.0.0.0")  # noqa: S104

    assert "0.0.0.0" == GatewayOptions(host="0.0.0.0", token=Secret.of("t")).host  # noqa: S104


def test_metrics_are_in_the_words_of_prometheus() -> None:
    counts = Counts()
    counts.answer("lineage", 201, 0.02)
    counts.accept(3, 100)
    text = counts.text({"kafka_away": ("1 while Kafka does not acknowledge.", 1)})

    assert 'penstock_gateway_requests_total{route="lineage",status="201"} 1' in text
    assert "penstock_gateway_events_total 3\n" in text
    assert 'penstock_gateway_answer_seconds_bucket{le="0.01"} 0\n' in text
    assert 'penstock_gateway_answer_seconds_bucket{le="0.025"} 1\n' in text
    assert text.endswith("penstock_gateway_kafka_away 1\n")
