"""Six pipelines over the events of a game, and a whole system around them: penstock up.

Here the podium: one state per game, forgotten when the game has ended.
"""

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tally import Tally


class Podium(StatefulProcessor):
    """Final standings, exactly as the game itself has them."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Keep one text per game."""
        self._state = handle.getValueState("tally", "tally string")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803 - Spark's names
        """Count a game's events, and return its standings once they are complete."""
        known = self._state.get()
        game = Tally(**json.loads(known[0])) if known else Tally()
        for row in rows:
            game.add(row.asDict())
        if not game.is_complete:
            self._state.update((json.dumps(game.as_dict()),))
            return
        self._state.clear()
        for standing in game.standings():
            yield Row(game_id=key[0], **standing)

    def close(self) -> None:
        """Nothing is open."""
