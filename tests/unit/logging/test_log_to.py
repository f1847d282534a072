import logging
from typing import Any

import pytest

from penstock.errors import BadInput
from penstock.logging import log_to


def test_a_logger_is_named_by_its_name_or_is_the_root_one() -> None:
    root, named = logging.getLogger(), logging.getLogger("named")

    with (
        log_to("kafka://127.0.0.1:1", topic="logs", logger="named", flush_timeout_s=0) as one,
        log_to("kafka://127.0.0.1:1", topic="logs", flush_timeout_s=0) as other,
    ):
        attached = (one in named.handlers, one in root.handlers, other in root.handlers)

    assert (True, False, True) == attached
    assert not {one, other} & {*named.handlers, *root.handlers}


def test_log_to_adds_one_handler_and_lets_records_of_its_level_pass() -> None:
    logger = logging.getLogger("app.log_to")
    logger.setLevel(logging.ERROR)

    handler = log_to("redis://127.0.0.1:1", topic="logs", logger=logger, level="INFO", key="game_id")

    assert [handler] == logger.handlers
    assert logging.INFO == logger.level == handler.level
    assert ("logs", "game_id") == (handler.options.topic, handler.options.key)
    logger.removeHandler(handler)
    handler.close()


@pytest.mark.parametrize(
    ("address", "options", "reason"),
    [
        ("nats://127.0.0.1", {}, "no transport is known"),
        ("kafka://", {"when_full": "explode"}, "when_full: it must be 'block', 'drop_oldest' or 'drop_newest'"),
        ("kafka://", {"buffer_events": -1}, "buffer_events: it must be at least 1"),
        ("kafka://", {"colour": "red"}, "colour: it is not known$"),
        ("kafka://", {"when_ful": "block"}, "when_ful: it is not known; did you mean 'when_full'?"),
        ("kafka://", {"level": "warn_ing"}, "there is no level 'warn_ing'. Did you mean 'WARNING'?"),
    ],
)
def test_a_wrong_address_or_option_is_one_clear_line(address: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        log_to(address, topic="logs", **options)
