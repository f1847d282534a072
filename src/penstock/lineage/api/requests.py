"""Metrics of requests for Prometheus: how many there were, and how long they took."""

import threading
from collections import defaultdict


class Requests:
    """Counts requests by method, route and status. Routes are those of the interface: nobody's names are in it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str, int], int] = defaultdict(int)
        self._seconds: dict[tuple[str, str, int], float] = defaultdict(float)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request; those of no route are one line together."""
        key = (method if method in {"GET", "POST", "PATCH", "DELETE", "HEAD"} else "OTHER", route or "none", status)
        with self._lock:
            self._counts[key] += 1
            self._seconds[key] += seconds

    def text(self) -> str:
        """Return all counts in Prometheus's text format."""
        with self._lock:
            counts, seconds = sorted(self._counts.items()), sorted(self._seconds.items())
        lines = ["# HELP penstock_lineage_requests_total Requests.", "# TYPE penstock_lineage_requests_total counter"]
        lines += [f"penstock_lineage_requests_total{_labels(key)} {value}" for key, value in counts]
        name = "penstock_lineage_request_seconds_total"
        lines += [f"# HELP {name} Seconds spent on requests.", f"# TYPE {name} counter"]
        lines += [f"{name}{_labels(key)} {value:.6f}" for key, value in seconds]
        return "\n".join(lines) + "\n"


def _labels(key: tuple[str, str, int]) -> str:
    method, route, status = key
    return f'{{method="{method}",route="{route}",status="{status}"}}'
