"""Pauses before something that ended is started again: they grow, and start over after it has run well for a while."""

_FIRST_S = 1.0
_LONGEST_S = 60.0
_HEALTHY_AFTER_S = 60.0


class Pauses:
    """The pauses between restarts of one process."""

    def __init__(self) -> None:
        self._last_s = 0.0

    def after(self, ran_s: float) -> float:
        """Return how long to wait now that it has ended, after it had run that long."""
        if ran_s > _HEALTHY_AFTER_S or not self._last_s:
            self._last_s = _FIRST_S
        else:
            self._last_s = min(2 * self._last_s, _LONGEST_S)
        return self._last_s
