"""Our own sinks, killed at as many lines of their commit as those of others are: only `make soak` has the time."""

import pytest

from penstock.testing.sink_conformance import SinkConformance


class KilledOften(SinkConformance):
    """The conformance suite with few kills, and once more with as many as it has by default."""

    kills_in_commit = 4

    @pytest.mark.soak
    @pytest.mark.timeout(1800)
    def test_a_driver_that_is_killed_at_many_lines_of_its_commit_loses_and_doubles_nothing(self) -> None:
        self.kills_in_commit = SinkConformance.kills_in_commit
        self.test_a_driver_that_is_killed_at_any_point_loses_and_doubles_nothing()
