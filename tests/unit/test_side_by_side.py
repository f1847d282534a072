import signal
import subprocess
import sys
import textwrap

import pytest

from penstock.errors import Conflict
from penstock.side_by_side import do_all


def test_all_calls_are_made_also_if_one_fails_and_its_failure_is_raised() -> None:
    done: list[int] = []

    def fail() -> None:
        raise Conflict("taken")

    with pytest.raises(Conflict, match="taken"):
        do_all([lambda: done.append(1), fail, lambda: done.append(2)])

    assert {1, 2} == set(done)


def test_ctrl_c_does_not_wait_for_what_is_still_going_on() -> None:
    program = """
        import time
        from penstock.side_by_side import do_all

        def call():
            print("begun", flush=True)
            time.sleep(600)

        do_all([call])
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert "begun\n" == running.stdout.readline()
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)

    assert err.rstrip().endswith("KeyboardInterrupt")
