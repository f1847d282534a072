"""The pipelines of a console on a real broker: a range is replayed as planned, and a file is tried out by typing."""

from pathlib import Path

import yaml
from selenium.webdriver.common.by import By

from penstock.operate.belonging import write_file
from penstock.operate.status import Status

from conftest import _skip_without
from support.browsers import browsing_console, find_browser
from support.consoles import open_console
from support.pipelines import Lab
from support.waiting import eventually


def landed(lab: Lab, topic: str, count: int) -> Path:
    """Land records as a driver would; return the pipeline's file."""
    lab.send_ids(topic, range(count))
    file = lab.written(topic)
    lab.run(lab.spec(topic))
    write_file(lab.home(topic).folder, file)
    Status(pipeline=topic, state="finished", pid=1, file=str(file)).save(lab.home(topic).folder)
    return file


def test_a_range_is_planned_and_then_replayed_exactly_as_planned(lab: Lab) -> None:
    topic = lab.kafka.topic("console-range")
    landed(lab, topic, 4)
    lab.send(topic, {"id": 9, "name": "not landed yet"})
    ask = open_console(lab.kafka.home, lab.connection.bootstrap_servers)
    planned = ask("POST", f"/pipelines/{topic}/replays", {"since": "1"}).json()
    path = f"/pipelines/{topic}/replays/{planned['replay']}"
    before = ask("GET", path).status_code
    unconfirmed = ask("POST", path, {"confirm": "another"}).status_code
    begun = ask("POST", path, {"confirm": topic})
    again = ask("POST", path, {"confirm": topic}).status_code
    ended = eventually(lambda: ask("GET", path).json(), lambda seen: seen["state"] != "running", timeout_s=240)

    assert (3, [(1, 4)]) == (planned["offsets"], [(each["start"], each["end"]) for each in planned["parts"]])
    assert (404, 422, 202, 404) == (before, unconfirmed, begun.status_code, again)
    assert "done" == ended["state"], ended
    assert [0, 1, 2, 3] == lab.ids()


def test_a_range_is_replayed_from_the_page_which_follows_it_to_its_end(lab: Lab) -> None:
    _skip_without(find_browser)
    topic = lab.kafka.topic("console-followed")
    landed(lab, topic, 3)
    with browsing_console(lab.kafka.home, lab.connection.bootstrap_servers) as browser:
        browser.open(f"/pipelines/{topic}")
        browser.click("Check")
        browser.shows("The file can run")
        browser.click("Close")
        browser.click("Replay")
        browser.write("2h, 2026-01-31T12:00, 42", "1")
        browser.click("Show the plan")
        browser.shows("2 offsets")
        browser.write(f"Type {topic} to confirm", topic)
        browser.click("Replay")
        browser.shows(": done", timeout_s=240)
        complaints = browser.complaints

    assert ([], [0, 1, 2]) == (complaints, lab.ids())


def test_a_mistake_is_said_while_somebody_types(lab: Lab) -> None:
    _skip_without(find_browser)
    topic = lab.kafka.topic("console-typed")
    file = landed(lab, topic, 1)
    text = yaml.safe_dump(lab.document(topic))
    file.write_text(text)
    with browsing_console(lab.kafka.home, lab.connection.bootstrap_servers) as browser:
        browser.open(f"/pipelines/{topic}")
        browser.shows("This can run.", "Expectations", "Its file has none")
        complaints = browser.complaints
        browser.driver.find_element(By.CSS_SELECTOR, ".cm-content").send_keys("dekode: 1\n")
        browser.shows("this key is not known; did you mean 'decode'?")

    assert ([], text) == (complaints, file.read_text())
