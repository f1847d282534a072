"""Testing a pipeline without a broker: what each sink and the dead letters would get."""

from penstock.testing.crashing import crashing
from penstock.testing.dry_run import Dead, Outcome
from penstock.testing.fake_clock import FakeClock
from penstock.testing.kit import Record, run
from penstock.testing.sink_conformance import Landed, SinkConformance

__all__ = ["Dead", "FakeClock", "Landed", "Outcome", "Record", "SinkConformance", "crashing", "run"]
