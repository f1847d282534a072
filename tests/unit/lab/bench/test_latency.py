"""Where the time of a batch goes."""

import pytest

from penstock.driver.batch import BatchReport
from penstock.lab.bench.latency import shares_of


def test_the_shares_of_a_batch_and_of_what_is_between_two_add_up_to_the_time_that_passes() -> None:
    stages = {"job": 0.05, "prepare": 0.01, "commit": 0.03}
    report = BatchReport(batch=1, read=1, dead=0, sinks={}, rules={}, ends={}, seconds=0.1, stages=stages)

    shares = {each.part: each.p50_ms for each in shares_of([(0.15 * number, report) for number in range(20)])}

    assert {"job": 50.0, "prepare": 10.0, "commit": 30.0} == {name: shares[name] for name in stages}
    assert pytest.approx(150.0, abs=0.5) == sum(shares.values())
