"""Ports of one worker's own: what one worker takes while another's server is down would keep that server down."""

import os

from penstock.broker import ports


def keep_to_own_ports() -> None:
    """Let this process find free ports only in this worker's part of those that servers are kept on."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    worker %= workers  # one that replaces a worker that crashed has a number beyond these
    every = ports._KEPT_PORTS
    size = len(every) // workers
    ports._KEPT_PORTS = every[worker * size : (worker + 1) * size]
