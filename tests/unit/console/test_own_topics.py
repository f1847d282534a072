"""Topics that are Kafka's or Penstock's own: nobody writes to them by the console, whatever their role."""

from pathlib import Path

import pytest

from support.consoles import open_console

UNREACHABLE = "127.0.0.1:1"


@pytest.mark.parametrize(
    "topic", ["__consumer_offsets", "penstock.console-audit", "penstock.dead-ledger", "orders.dead", "connect-configs"]
)
def test_nobody_writes_to_makes_or_copies_to_topics_of_kafkas_or_penstocks_own(topic: str, tmp_path: Path) -> None:
    ask = open_console(tmp_path, UNREACHABLE)
    asked = [
        ask("POST", f"/topics/{topic}/messages", {"value": "forged"}),
        ask("POST", "/topics/orders/messages/copy", {"partition": 0, "offset": 0, "to": topic}),
        ask("POST", "/topics", {"topic": topic}),
    ]

    assert [(403, f"topic '{topic}' is Kafka's or Penstock's own")] * 3 == [
        (each.status_code, each.json()["error"]["message"]) for each in asked
    ]
