"""Clicks as actions: a double click is one, and whoever clicks again a moment later means another."""

import secrets
import time

_ONE_CLICK_S = 1.0


class Clicks:
    """The newest click on each button of one open page."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[float, str]] = {}

    def action_id(self, what: str) -> str:
        """Return the id of the action that a click means; it stays for a second, so that the same is done once."""
        now = time.monotonic()
        at, known = self._newest.get(what, (0.0, ""))
        if not known or now - at > _ONE_CLICK_S:
            at, known = now, secrets.token_hex(16)
            self._newest[what] = at, known
        return known
