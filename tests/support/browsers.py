"""A real browser that looks at a console: Debian's chromium, driven by its own driver, with no display."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    NoSuchElementException,
    StaleElementReferenceException,
)
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from penstock.console.users import Users
from penstock.errors import EnvironmentNotReady

from support.consoles import PASSWORD
from support.waiting import eventually, until

WIDE, NARROW = (1280, 900), (400, 800)
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-sync",
)


def find_browser() -> tuple[str, str]:
    """Return the browser and its driver."""
    browser, driver = which("chromium"), which("chromedriver")
    if browser is None or driver is None:
        raise EnvironmentNotReady("there is no chromium with its driver", fix="Run: scripts/setup tests")
    return browser, driver


@contextmanager
def browsing(folder: Path) -> Iterator[Any]:
    """Run one browser; its profile is in a folder that is empty."""
    browser, driver = find_browser()
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*_FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = Service(driver, log_output=os.devnull)
    running = webdriver.Chrome(options=options, service=service)
    try:
        yield running
    finally:
        running.quit()


class Browser:
    """Looks at one console."""

    def __init__(self, driver: Any, address: str) -> None:
        self.driver, self.address = driver, address

    def open(self, path: str) -> None:
        """Open a page in a wide window, and forget what the browser said before."""
        self.resize(WIDE)
        self.driver.get_log("browser")
        self.driver.get(self.address + path)

    def resize(self, size: tuple[int, int]) -> None:
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def sign_in(self) -> None:
        """Sign in by the page that every other one leads to."""
        self.open("/topics")
        eventually(lambda: self.driver.find_elements(By.NAME, "user"))[0].send_keys("ann")
        self.driver.find_element(By.NAME, "password").send_keys(PASSWORD, Keys.ENTER)
        self.shows("Overview", "ann (admin)")

    @property
    def text(self) -> str:
        """What is to be read now, asked in one step: an element that was found first may be gone when it is read."""
        return str(self.driver.execute_script("return document.body ? document.body.innerText : ''"))

    def shows(self, *words: str, timeout_s: float = 120.0) -> None:
        """Wait until the page shows all of these."""
        eventually(lambda: self.text, lambda text: all(word in text for word in words), timeout_s)

    def click(self, name: str) -> None:
        """Click what is called so as soon as it is there, the newest first: a dialog lies above the page."""
        until(lambda: self._is_clicked(name, lambda found: found.click()))

    def double_click(self, name: str) -> None:
        """Click twice at once what is called so, as soon as it is there."""
        until(lambda: self._is_clicked(name, lambda found: ActionChains(self.driver).double_click(found).perform()))

    def _is_clicked(self, name: str, click: Callable[[Any], None]) -> bool:
        """Try once: a loading page draws elements again or hides them, and an opening dialog lies above them."""
        try:
            found = self.driver.find_elements(By.CSS_SELECTOR, "button, a, .q-item")
            named = [each for each in found if each.is_displayed() and each.text.strip().endswith(name)]
            if named:
                click(named[-1])
        except (
            ElementClickInterceptedException,
            ElementNotInteractableException,
            StaleElementReferenceException,
        ):
            return False
        return bool(named)

    def field(self, label: str) -> Any:
        """Return a field as soon as it is there: a dialog takes a moment to open."""
        selector = f'[aria-label="{label}"], [placeholder="{label}"]'
        return eventually(lambda: self.driver.find_elements(By.CSS_SELECTOR, selector))[0]

    def write(self, label: str, *keys: str) -> None:
        """Type into a field as soon as it takes keys."""
        self._with_field(label, lambda field: field.send_keys(*keys))

    def click_field(self, label: str) -> None:
        """Click a field as soon as it takes clicks."""
        self._with_field(label, lambda field: field.click())

    def _with_field(self, label: str, act: Callable[[Any], None]) -> None:
        """Try until it works: a page that loads, or a dialog that opens, has its fields before they can be used."""

        def is_done() -> bool:
            try:
                act(self.field(label))
            except (
                ElementClickInterceptedException,
                ElementNotInteractableException,
                StaleElementReferenceException,
            ):
                return False
            return True

        until(is_done)

    def press(self, selector: str, key: str) -> None:
        """Press a key on an element as soon as it is there: a table that is filled draws its rows again."""

        def is_pressed() -> bool:
            try:
                self.driver.find_element(By.CSS_SELECTOR, selector).send_keys(key)
            except (NoSuchElementException, StaleElementReferenceException):
                return False
            return True

        until(is_pressed)

    @property
    def complaints(self) -> list[str]:
        """What the browser has to complain of since the page was opened."""
        return [each["message"] for each in self.driver.get_log("browser") if each["level"] in {"WARNING", "SEVERE"}]

    @property
    def overflow_px(self) -> int:
        """How much wider the page is than the window."""
        script = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return int(self.driver.execute_script(script))


@contextmanager
def browsing_console(
    home: Path, bootstrap_servers: str = "", project: Path | None = None, *options: str
) -> Iterator[Browser]:
    """Run a console of its own process, and a browser in which an admin has signed in.

    Without servers it is about the local cluster of the home folder. The options are those of `penstock console`.
    """
    Users(home / "console").put("ann", PASSWORD, "admin")
    command = [sys.executable, "-m", "penstock", "--home", str(home)]
    command += ["--bootstrap", bootstrap_servers] if bootstrap_servers else []
    command += ["--project", str(project)] if project else []
    command += ["console", "--port", "0", "--sign-in", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as console:
        assert console.stderr is not None
        said = re.match(r"console at (http://\S+);", console.stderr.readline())
        try:
            assert said is not None
            with tempfile.TemporaryDirectory() as profile, browsing(Path(profile)) as driver:
                browser = Browser(driver, said[1])
                browser.sign_in()
                yield browser
        finally:
            console.terminate()
            console.wait(120)
