"""The gateway's metrics for Prometheus."""

from collections import Counter
from collections.abc import Mapping

_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Counts:
    """Counters since the start."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._within: Counter[float] = Counter()
        self.answered = 0
        self._seconds = 0.0
        self.events = 0
        self.bytes = 0

    def answer(self, route: str, status: int, seconds: float) -> None:
        """Count one answer."""
        self._requests[route, status] += 1
        self.answered += 1
        self._seconds += seconds
        for bound in _BOUNDS_S:
            self._within[bound] += seconds <= bound

    def accept(self, events: int, size: int) -> None:
        """Count events that Kafka acknowledged."""
        self.events += events
        self.bytes += size

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Return all in Prometheus' text format, with what holds at this moment: a description and a value by name."""
        lines = [
            *_head("requests_total", "counter", "Answers by route and status."),
            *(
                f'penstock_gateway_requests_total{{route="{route}",status="{status}"}} {count}'
                for (route, status), count in sorted(self._requests.items())
            ),
            *_head("events_total", "counter", "Events that Kafka has acknowledged."),
            f"penstock_gateway_events_total {self.events}",
            *_head("event_bytes_total", "counter", "Bytes of those events."),
            f"penstock_gateway_event_bytes_total {self.bytes}",
            *_head("answer_seconds", "histogram", "Seconds from a request's head to its answer."),
            *(f'penstock_gateway_answer_seconds_bucket{{le="{bound}"}} {self._within[bound]}' for bound in _BOUNDS_S),
            f'penstock_gateway_answer_seconds_bucket{{le="+Inf"}} {self.answered}',
            f"penstock_gateway_answer_seconds_sum {self._seconds:.6f}",
            f"penstock_gateway_answer_seconds_count {self.answered}",
        ]
        for name, (text, value) in gauges.items():
            lines += [*_head(name, "gauge", text), f"penstock_gateway_{name} {value:g}"]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP penstock_gateway_{name} {text}", f"# TYPE penstock_gateway_{name} {kind}"
