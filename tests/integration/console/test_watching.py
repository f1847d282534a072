"""Records of a topic as they arrive, and copies of them, by the console's REST interface, on a real broker."""

import secrets
import socket
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from penstock.console.audit import TOPIC
from penstock.console.service import MOST_DOWNLOADS
from penstock.kafka import groups
from penstock.kafka.producer import Producer
from penstock.kafka.reader import read_all
from penstock.listening import listen

from conftest import RunningKafka
from support.consoles import Asked, open_console
from support.waiting import eventually, until


@pytest.fixture
def ask(kafka: RunningKafka, tmp_path: Path) -> Asked:
    return open_console(tmp_path, kafka.connection.bootstrap_servers)


def test_a_tail_gives_what_came_and_counts_what_went_by(ask: Asked, kafka: RunningKafka) -> None:
    name = kafka.topic("watched")
    with Producer(kafka.connection) as producer:
        producer.send(name, "before")
        producer.flush()
        begun = ask("POST", "/tails", {"topic": name}).json()
        for number in range(1_000):
            producer.send(name, str(number))
    path, came = f"/tails/{begun['id']}", 0
    values: list[str] = []

    def is_all_there() -> bool:
        nonlocal came
        look = ask("GET", path).json()
        assert len(look["records"]) <= 200
        came += len(look["records"]) + look["skipped"]
        values.extend(each["value"]["text"] for each in look["records"])
        return bool(came >= 1_000)

    until(is_all_there)
    ended = ask("DELETE", path).json()

    assert (1_000, "999", "ended") == (came, values[-1], ended["state"])
    assert "before" not in values


def test_a_record_is_copied_byte_by_byte(ask: Asked, kafka: RunningKafka) -> None:
    one, other = kafka.topic("one"), kafka.topic("other")
    with Producer(kafka.connection) as producer:
        producer.send(one, "first")
        producer.send(one, b"\xff\x00", key=b"\x01k", headers=[("h", b"\xfe"), ("h", b"2")])
    asked = {"partition": 0, "offset": 1, "to": other}
    done = [ask("POST", f"/topics/{one}/messages/copy", asked, action_id="a-double-click") for _ in range(2)]
    missing = ask("POST", f"/topics/{one}/messages/copy", {**asked, "to": f"{other}.none"})
    (copied,) = read_all(kafka.connection, other)

    assert [(201, other)] * 2 == [(each.status_code, each.json()["topic"]) for each in done]
    assert (b"\xff\x00", b"\x01k", [("h", b"\xfe"), ("h", b"2")]) == (copied.value(), copied.key(), copied.headers())
    assert 404 == missing.status_code


def test_a_topic_names_the_groups_that_read_it(ask: Asked, kafka: RunningKafka) -> None:
    name = kafka.topic("used")
    with Producer(kafka.connection) as producer:
        for _ in range(3):
            producer.send(name, "{}")
    groups.commit(kafka.admin(), name, {(name, 0): 1})
    found = ask("GET", f"/topics/{name}/use").json()

    assert [{"group": name, "lag": 2}] == found["groups"]
    assert ([], [], None, 0) == (found["read_by"], found["written_by"], found["bytes"], found["groups_left_out"])


def test_who_did_what_is_kept_in_a_topic_and_what_was_sent_is_not(ask: Asked, kafka: RunningKafka) -> None:
    name = kafka.topic("audited")

    def told() -> list[tuple[str, str]]:
        entries = ask("GET", "/audit", count=1_000).json()
        return [(each["action"], each["outcome"]) for each in entries if name in each["action"]]

    with ask.client:
        ask("POST", f"/topics/{name}/messages", {"value": "canary-secret"})
        ask("DELETE", f"/topics/{name}", confirm="another")
        ask("POST", "/searches", {"topic": name, "value": "canary-secret"})
        until(lambda: len(told()) == 2)

    assert [
        (f"DELETE /topics/{name}?confirm=another", f"failed: type the topic's name, '{name}', to confirm"),
        (f"POST /topics/{name}/messages", "done"),
    ] == told()
    assert not any(b"canary-secret" in (each.value() or b"") for each in read_all(kafka.connection, TOPIC))


def test_what_rules_hide_is_hidden_wherever_records_are_shown(ask: Asked, kafka: RunningKafka, tmp_path: Path) -> None:
    name = kafka.topic("hidden")
    with Producer(kafka.connection) as producer:
        producer.send(name, '{"id": 1, "card": "4111"}')
    (tmp_path / "console").mkdir(exist_ok=True)
    (tmp_path / "console" / "masks.yaml").write_text(f"rules: [{{topics: {name}, fields: [card]}}]")
    browsed = ask("GET", f"/topics/{name}/messages").json()["records"]
    downloaded = ask("GET", f"/topics/{name}/messages/download")
    begun = ask("POST", "/searches", {"topic": name, "value": "4111"}).json()
    until(lambda: ask("GET", f"/searches/{begun['id']}").json()["state"] != "running")
    other = kafka.topic("seen")
    copied = ask("POST", f"/topics/{name}/messages/copy", {"partition": 0, "offset": 0, "to": other})

    assert '{"id":1,"card":"***"}' == browsed[0]["value"]["text"]
    assert browsed[0] == downloaded.json()
    assert f"filename*=UTF-8''{name}.jsonl" in downloaded.headers["content-disposition"]
    assert [] == ask("GET", f"/searches/{begun['id']}").json()["found"]
    assert (409, []) == (copied.status_code, read_all(kafka.connection, other))


def test_a_console_that_was_told_so_gives_no_records_away_as_files(ask: Asked, kafka: RunningKafka) -> None:
    ask.client.app.state.console.has_downloads = False  # type: ignore[attr-defined]
    said = ask("GET", f"/topics/{kafka.topic('kept')}/messages/download")

    assert (403, "refused") == (said.status_code, said.json()["error"]["code"])


def test_clients_that_take_downloads_slowly_hold_no_more_than_a_few_clients_of_kafka(
    ask: Asked, kafka: RunningKafka
) -> None:
    name = kafka.topic("slow")
    with Producer(kafka.connection) as producer:
        for _ in range(200):
            producer.send(name, secrets.token_hex(32_000))
    app: Any = ask.client.app
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1))
    with listen("127.0.0.1", 0, "a test") as listener, ExitStack() as slow:
        address = listener.getsockname()
        serving = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        serving.start()
        try:
            until(lambda: server.started)
            with httpx.Client(base_url=f"http://127.0.0.1:{address[1]}/api/v1/topics", timeout=60) as client:
                missing = {client.get("/none/messages/download").status_code for _ in range(2 * MOST_DOWNLOADS)}
                path = f"/{name}/messages/download"
                for _ in range(MOST_DOWNLOADS):
                    taking = slow.enter_context(socket.socket())
                    taking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    taking.connect(address)
                    taking.sendall(f"GET /api/v1/topics{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
                    assert taking.recv(12) == b"HTTP/1.1 200"
                refused = client.get(path)
                slow.close()
                later = eventually(lambda: client.get(path), lambda answer: answer.is_success)
        finally:
            server.should_exit = True
            serving.join()

    assert {404} == missing
    assert (409, "8 downloads are running already") == (refused.status_code, refused.json()["error"]["message"])
    assert 200 == len(later.text.splitlines())
