"""Crash points that a user's own test names."""

import os
import subprocess
import sys
from typing import get_args

import pytest

from penstock.testing import crashing
from penstock.testing.crashing import Point


@pytest.mark.parametrize("point", get_args(Point))
def test_crashing_names_a_point_at_which_a_driver_really_dies(point: Point) -> None:
    code = f"from penstock.delivery.crash_points import crash_point\ncrash_point({point!r})\nprint('lived')\n"

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **crashing(point)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (-9, "") == (done.returncode, done.stdout)


def test_crashing_may_name_a_sink_and_let_it_pass_first() -> None:
    assert {"PENSTOCK_CRASH_AT": "in_commit:delta", "PENSTOCK_CRASH_AFTER": "2"} == crashing(
        "in_commit", sink="delta", after=2
    )
