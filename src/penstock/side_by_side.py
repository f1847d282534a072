"""Runs several functions at the same time, each in a thread that does not keep the process alive.

The threads of Python's own pools are waited for when the process ends: Ctrl-C would seem to do nothing until they are
done. Here it ends the wait, and with the process what is still going on in it.
"""

import threading
from collections.abc import Callable, Iterable


def do_all(calls: Iterable[Callable[[], object]]) -> None:
    """Make all calls and wait for them; then raise the first failure, if there is one."""
    failures: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised below, by the caller's thread
            failures.append(error)

    threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
