import signal
import subprocess
import sys

import pytest

PASSES = """
import sys
from penstock.delivery.crash_points import crash_point
for point in sys.argv[1:]:
    name, _, sink = point.partition(":")
    crash_point(name, sink)
    print(point, flush=True)
"""


def passed(*points: str, **env: str) -> tuple[int, list[str]]:
    """Go past the points in a process of its own; give how it ended and the points it got past."""
    done = subprocess.run(
        [sys.executable, "-c", PASSES, *points], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout.split()


@pytest.mark.parametrize(
    ("env", "survived"),
    [
        pytest.param({}, None, id="in a real run"),
        pytest.param({"PENSTOCK_CRASH_AT": "elsewhere"}, None, id="at a point that never comes"),
        pytest.param({"PENSTOCK_CRASH_AT": "in_commit:other"}, None, id="at a sink that there is not"),
        pytest.param({"PENSTOCK_CRASH_AT": "planned"}, 0, id="at the first point"),
        pytest.param({"PENSTOCK_CRASH_AT": "in_commit"}, 1, id="at a point of any sink"),
        pytest.param({"PENSTOCK_CRASH_AT": "in_commit:json"}, 2, id="at a point of one sink"),
        pytest.param({"PENSTOCK_CRASH_AT": "in_commit", "PENSTOCK_CRASH_AFTER": "1"}, 2, id="the second time"),
        pytest.param({"PENSTOCK_CRASH_AT": "planned", "PENSTOCK_CRASH_AFTER": "9"}, None, id="not so often"),
    ],
)
def test_a_driver_dies_at_the_point_that_is_named_and_at_no_other(env: dict[str, str], survived: int | None) -> None:
    points = ["planned", "in_commit:delta", "in_commit:json", "committed"]

    code, actual = passed(*points, **env)

    assert points[:survived] == actual
    assert (0 if survived is None else -signal.SIGKILL) == code


def test_the_driver_dies_for_a_point_in_a_task() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as driver:
        code = f"from penstock.delivery.crash_points import crash_point; crash_point('writing', pid={driver.pid})"
        subprocess.run([sys.executable, "-c", code], env={"PENSTOCK_CRASH_AT": "writing"}, timeout=60, check=True)

        assert -signal.SIGKILL == driver.wait(60)
