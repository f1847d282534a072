"""From librdkafka's errors to ours: which are waited out, and which end the work."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress

import pytest
from confluent_kafka import KafkaError

from penstock.errors import BrokerUnavailable, LeaderNotAvailable, NotFound, PenstockError, Refused
from penstock.kafka import diagnose, failures
from penstock.kafka.connection import Connection
from penstock.kafka.diagnose import explain_outage
from penstock.kafka.failures import Causes, translate
from penstock.kafka.security import Plaintext
from penstock.kafka.security.tls import Tls

from support.waiting import until


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(KafkaError._NOENT, LeaderNotAvailable, id="a new partition that has no leader yet"),
        pytest.param(KafkaError.NOT_LEADER_FOR_PARTITION, LeaderNotAvailable, id="a leader that has just changed"),
        pytest.param(KafkaError.FENCED_LEADER_EPOCH, LeaderNotAvailable, id="a leader that is no more"),
        pytest.param(KafkaError._ALL_BROKERS_DOWN, BrokerUnavailable, id="nobody there"),
        pytest.param(KafkaError.UNKNOWN_TOPIC_OR_PART, NotFound, id="no such topic"),
        pytest.param(KafkaError.TOPIC_AUTHORIZATION_FAILED, Refused, id="no permission"),
    ],
)
def test_an_error_says_by_its_kind_whether_to_try_again(code: int, expected: type[PenstockError]) -> None:
    found = translate(KafkaError(code), Connection(bootstrap_servers="127.0.0.1:1"), "looking")

    assert expected is type(found)
    assert "looking" in str(found)


class Listener:
    """Accepts connections, counts them, and answers what it is told to: by default nothing."""

    def __init__(self, answer: bytes = b"", *, hang_up: bool = False) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._answer = answer
        self._hang_up = hang_up
        self.connections = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def server(self) -> str:
        return f"127.0.0.1:{self._socket.getsockname()[1]}"

    def _serve(self) -> None:
        with suppress(OSError), ExitStack() as accepted:
            while True:
                connection, _ = self._socket.accept()
                accepted.enter_context(connection)
                self.connections += 1
                if self._answer and connection.recv(1):
                    connection.sendall(self._answer)
                if self._hang_up:
                    connection.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._socket.close()


@pytest.fixture
def listen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Listener]]:
    monkeypatch.setattr(diagnose, "_TIMEOUT_S", 0.2)
    with ExitStack() as stack:

        def make(answer: bytes = b"", *, hang_up: bool = False) -> Listener:
            return stack.enter_context(closing(Listener(answer, hang_up=hang_up)))

        yield make


@pytest.mark.parametrize("security", [Plaintext(), Tls()], ids=["plaintext", "tls"])
@pytest.mark.parametrize("hang_up", [False, True], ids=["stalls", "hangs up"])
def test_a_broker_that_says_nothing_is_an_outage(
    listen: Callable[..., Listener], security: Plaintext | Tls, *, hang_up: bool
) -> None:
    found = explain_outage(
        Connection(bootstrap_servers=listen(hang_up=hang_up).server, security=security), "connecting"
    )

    assert (BrokerUnavailable, True) == (type(found.error), found.is_there)


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x0a\0\0\0\x07\0\0\0\0\0\0"], ids=["HTTP", "Kafka"]
)
def test_an_answer_in_the_clear_proves_that_tls_is_not_spoken(listen: Callable[..., Listener], answer: bytes) -> None:
    found = explain_outage(Connection(bootstrap_servers=listen(answer).server, security=Tls()), "connecting")

    assert Refused is type(found.error)
    assert "does not speak TLS" in str(found.error)


def test_no_more_probes_are_made_once_one_was_accepted(
    listen: Callable[..., Listener], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(failures, "_LOOK_AGAIN_S", 0.0)
    listener = listen()
    causes = Causes(Connection(bootstrap_servers=listener.server))
    causes(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    first = causes.refusal()
    until(lambda: listener.connections > 0)
    heard = listener.connections
    others = [causes.refusal() for _ in range(5)]

    assert [None] * 6 == [first, *others]
    assert heard == listener.connections
