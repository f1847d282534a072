"""Take the pictures of the console that the documentation shows, from a console that runs: `make up`, then this.

Usage: .venv/bin/python scripts/console_pictures.py http://127.0.0.1:8080 [FOLDER [NAME...]]. What there is to see is
looked up by its REST interface, so any project will do; a page about something that the project lacks is left out. With
names, such as schema, only those pictures are taken.
"""

import os
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from penstock.console.pages.paths import connector_path, run_path, subject_path

_FOLDER = Path(__file__).parent.parent / "docs" / "images"
_WIDTH, _HEIGHT = 1280, 720
_SETTLED_S = 8.0
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")


def main(address: str, folder: Path, names: list[str]) -> None:
    """Look at each page until it has loaded, and keep what it shows."""
    options = webdriver.ChromeOptions()
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        browser = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver", log_output=os.devnull))
        try:
            size = {"width": _WIDTH, "height": _HEIGHT, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            for name, path in _pages(address).items():
                if names and name not in names:
                    continue
                browser.get(address + path)
                time.sleep(_SETTLED_S)  # charts need two looks
                _keep(browser.get_screenshot_as_png(), folder / f"console-{name}.png")
                print(f"console-{name}.png: {path}")
        finally:
            browser.quit()


def _keep(picture: bytes, path: Path) -> None:
    """Write a picture with 256 colours, which is a third as large and looks the same."""
    with Image.open(BytesIO(picture)) as whole:
        whole.convert("RGB").quantize(256, kmeans=2, dither=Image.Dither.NONE).save(path, optimize=True)


def _pages(address: str) -> dict[str, str]:
    """Return the address of each page by the name of its picture."""
    pages = {"overview": "/", "topics": "/topics", "groups": "/groups", "pipelines": "/pipelines"}
    pages |= {"dead-letters": "/dead-letters", "tables": "/tables", "nodes": "/nodes", "access": "/access"}
    topics = sorted(_ask(address, "/topics"), key=lambda each: -(each["records"] or 0))
    own = [each["topic"] for each in topics if not each["topic"].startswith(("__", "connect-", "penstock"))]
    if own:
        pages |= {"topic": f"/topics/{quote(own[0], safe='')}"}
        pages |= {"messages": f"/topics/{quote(own[0], safe='')}/messages"}
    groups = [each["group"] for each in _ask(address, "/groups")["groups"] if each["state"] == "stable"]
    pages |= {"group": f"/groups/{quote(groups[0], safe='')}"} if groups else {}
    pipelines = sorted(_ask(address, "/pipelines"), key=lambda each: -each["events"])
    pages |= {"pipeline": f"/pipelines/{pipelines[0]['pipeline']}"} if pipelines else {}
    tables = [each["table"] for each in _ask(address, "/tables")]
    pages |= {"table": f"/tables/{quote(tables[0], safe='')}"} if tables else {}
    datasets = _ask(address, "/lineage/datasets")
    if datasets and datasets["items"]:
        pages |= {"lineage": f"/lineage?of=dataset:{datasets['items'][0]['id']}"}
    subjects = sorted(_ask(address, "/schemas").get("subjects", []), key=lambda each: -each["versions"])
    pages |= {"schema": subject_path(subjects[0]["subject"])} if subjects else {}
    connectors = [each["name"] for each in _ask(address, "/connectors")]
    pages |= {"connector": connector_path(connectors[0])} if connectors else {}
    runs = [each["run_id"] for each in _ask(address, "/lab/runs")]
    return pages | ({"lab": run_path(runs[0])} if runs else {})


def _ask(address: str, path: str) -> Any:
    answer = httpx.get(f"{address}/api/v1{path}", trust_env=False, timeout=60.0)
    return answer.json() if answer.is_success else {}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else _FOLDER, sys.argv[3:])  # noqa: PLR2004
