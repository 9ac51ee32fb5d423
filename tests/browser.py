"""A browser without a screen: Chromium, driven by Selenium."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from tests.programs import program

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
#: Seconds for what a page is about to show.
PATIENCE = 30.0


class Browser:
    """One window, with what its pages say on the console."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        self.driver.get(url)

    def text(self, selector: str = "body") -> str:
        return str(self.driver.find_element(By.CSS_SELECTOR, selector).text)

    def run(self, script: str, *arguments: object) -> Any:
        """What a script of the test returns."""
        return self.driver.execute_script(f"return {script}", *arguments)

    def click(self, selector: str) -> None:
        self.driver.find_element(By.CSS_SELECTOR, selector).click()

    def type(self, selector: str, text: str) -> None:
        element = self.driver.find_element(By.CSS_SELECTOR, selector)
        element.clear()
        element.send_keys(text)

    def keys(self, text: str) -> None:
        """Keys to whatever has the focus."""
        webdriver.ActionChains(self.driver).send_keys(text).perform()

    def wait(self, condition: Callable[[], object], what: str, limit: float = PATIENCE) -> float:
        """Waits until something is so, and returns how many seconds that took."""
        began = time.monotonic()
        while not condition():
            assert time.monotonic() - began < limit, f"{what}: not after {limit} s; the page has {self.text()!r}, the console {self.said()}"
            time.sleep(0.05)
        return time.monotonic() - began

    def wait_text(self, text: str, limit: float = PATIENCE) -> float:
        return self.wait(lambda: text in self.text(), f"the text {text!r}", limit)

    def said(self) -> list[str]:
        """What the browser has reported since the last call: errors of scripts, refusals of the policy."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def screen(self, width: int, height: int, *, dark: bool = False, phone: bool = False) -> None:
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def picture(self, path: Path) -> None:
        self.driver.save_screenshot(str(path))


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with a new profile in this folder."""
    options = Options()
    options.binary_location = program("chromium")
    for argument in (*ARGUMENTS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(program("chromedriver")))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
