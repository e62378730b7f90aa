"""Draws the picture of a report: ``python docs/figures/report/make_picture.py``.

Needs selenium, and Chromium with its driver (Debian: ``apt-get install chromium chromium-driver``).
"""

from __future__ import annotations

import base64
import shutil
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from survival_objectives import HazardBoost
from survival_objectives.assessment import assess
from survival_objectives.datasets import load_covid_hospital
from survival_objectives.report import write_report

SIZE = {"width": 1040, "height": 650}


def report(folder: Path) -> Path:
    """A report on the bundled data."""
    data = load_covid_hospital()
    model = HazardBoost(random_state=0, n_jobs=1)
    assessment = assess(model, data.X, data.y, n_splits=5, random_state=0)
    return write_report(
        folder / "report.html",
        model=model.fit(data.X, data.y),
        X=data.X,
        y=data.y,
        assessment=assessment,
        event_names=data.event_names,
        title="Hospital stays with COVID-19",
        duration_name="day",
        time_unit="days",
        description=data.description,
    )


def photograph(page: Path, picture: Path) -> None:
    """The top of a page as a browser shows it, without the date."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {**SIZE, "deviceScaleFactor": 1, "mobile": False}
        )
        browser.get(page.as_uri())
        browser.execute_script("document.querySelector('.made').remove()")
        shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        picture.write_bytes(base64.b64decode(shot["data"]))
    finally:
        browser.quit()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        photograph(report(Path(folder)), Path(__file__).parent / "report.png")
