"""Reading headers that anybody may have sent, so that no header's name can end the process."""

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Message

from penstock.kafka.failures import logger


def read_headers(messages: Sequence[Message]) -> tuple[list[Any], list[int]]:
    """Return the headers of each message, and the numbers of those with a name that is no UTF-8, which now have none.

    Such a name makes the client return a broken list and an error at the same time. Called from C, as here, that is an
    exception; called from Python it may be noticed somewhere else. Asked again, the broken list is all there is, and to
    touch it ends the process: so it is taken away.
    """
    headers: list[Any] = []
    unreadable: list[int] = []
    answers = map(Message.headers, messages)
    while len(headers) < len(messages):
        try:
            headers.extend(answers)
        except (SystemError, UnicodeDecodeError):
            messages[len(headers)].set_headers([])
            unreadable.append(len(headers))
            headers.append(None)
    return headers, unreadable


def settle_headers(messages: Sequence[Message]) -> None:
    """Make it safe to ask these messages for their headers; what is left out is logged."""
    _, unreadable = read_headers(messages)
    for message in map(messages.__getitem__, unreadable):
        where = f"{message.topic()}/{message.partition()} offset {message.offset()}"
        logger.warning("%s: the name of a header is not UTF-8: the headers are left out", where)
