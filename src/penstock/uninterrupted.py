"""A call that always completes, even if a signal handler raises meanwhile.

1. A signal comes while a library works. 2. Its handler raises on the main thread as soon as the call returns, in place
of what it gives. 3. So another thread makes the call, and what was raised waits until the outcome is known.
"""

import _thread
from collections.abc import Callable


def to_the_end(call: Callable[[], None]) -> None:
    """Make the call; then raise what was raised here meanwhile, or else what the call raised."""
    # Plain locks, and a thread without an object: those of `threading` could be interrupted half way.
    once, over = _thread.allocate_lock(), _thread.allocate_lock()
    over.acquire()
    outcome: list[BaseException | None] = []

    def run() -> None:
        if not once.acquire(blocking=False):
            return
        failure: BaseException | None = None
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised below, by the caller's thread
            failure = error
        outcome.append(failure)
        over.release()

    raised: BaseException | None = None
    while not outcome:
        try:
            # Again after each interruption, which may have come before the thread had begun; only one makes the call.
            _thread.start_new_thread(run, ())
            over.acquire()
        except BaseException as error:  # noqa: BLE001 - raised below, once the outcome is known
            raised = raised or error
    if raised is not None:
        raise raised
    if outcome[0] is not None:
        raise outcome[0]
