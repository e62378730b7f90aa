"""The report, and the page of a service, in a real browser: layout, slider, console, network.

Needs Chromium with its driver (Debian: ``apt-get install chromium chromium-driver``) beside the
``test`` extra. Without them the tests are skipped, and the summary of pytest says so in its last
lines; with ``SURVIVAL_OBJECTIVES_BROWSER=required`` they fail instead.
"""

import json
import os
import shutil
import threading
import time

import numpy as np
import pandas as pd
import pytest
import uvicorn

from survival_objectives import HazardBoost
from survival_objectives.assessment import assess
from survival_objectives.datasets import make_competing_risks
from survival_objectives.report import write_report, write_validation
from survival_objectives.serve import application

webdriver = pytest.importorskip("selenium.webdriver", reason="BROWSER TESTS DID NOT RUN: selenium")
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER) and os.environ.get("SURVIVAL_OBJECTIVES_BROWSER") != "required",
    reason="BROWSER TESTS DID NOT RUN: apt-get install chromium chromium-driver",
)

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NAMES = ("censored", "a very long name of an event </script><b>", "death")
OVERFLOWING = """
    const width = document.documentElement.clientWidth;
    return Array.from(document.querySelectorAll("body *"))
        .filter(element => !element.closest(".scroll, nav, .sr, .skip, svg"))
        .filter(element => element.getBoundingClientRect().right > width + 1)
        .map(element => element.outerHTML.slice(0, 80));
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    data = make_competing_risks(300, n_causes=2, n_features=3, random_state=0)
    X = data.X.rename(columns={"x0": "a_name_that_goes_on_and_on_" * 4, "x1": "W" * 120})
    model = HazardBoost(n_estimators=10, random_state=0, n_jobs=1)
    assessment = assess(model, X, data.y, n_splits=3, random_state=0)
    return write_report(
        tmp_path_factory.mktemp("report") / "report.html",
        model=model.fit(X, data.y),
        X=X,
        y=data.y,
        assessment=assessment,
        event_names=NAMES,
        title="T" * 150,
        duration_name="year",
    )


@pytest.fixture(scope="module")
def validation(tmp_path_factory):
    data = make_competing_risks(600, n_causes=2, n_features=3, random_state=0)
    X = data.X.rename(columns={"x0": "a_name_that_goes_on_and_on_" * 4, "x1": "W" * 120})
    model = HazardBoost(n_estimators=5, random_state=0, n_jobs=1).fit(X, data.y)
    late = data.y.assign(duration=2 * data.y["duration"])
    path = tmp_path_factory.mktemp("validation") / "page.html"
    return write_validation(
        path, model=model, X=X, y=late, times=[0.3, 0.6, 0.9], X_train=X, title="T" * 150
    )


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def open_report(browser, report, *, width=1200, colours="light"):
    open_page(browser, report.as_uri(), width=width, colours=colours)


def open_page(browser, address, *, width=1200, colours="light"):
    command = browser.execute_cdp_cmd
    command(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    feature = {"name": "prefers-color-scheme", "value": colours}
    command("Emulation.setEmulatedMedia", {"media": "", "features": [feature]})
    browser.get(address)


def shown(browser):
    """Probabilities on the cards, one list a person, by state."""
    return browser.execute_script("""
        return Array.from(document.querySelectorAll(".person")).map(card =>
            Array.from(card.querySelectorAll("[data-state]"))
                .sort((a, b) => a.dataset.state - b.dataset.state)
                .map(cell => parseFloat(cell.textContent)));
    """)


@pytest.mark.parametrize("width", [320, 390, 768, 1200])
def test_nothing_sticks_out(browser, report, width):
    open_report(browser, report, width=width)
    browser.execute_script(
        "document.querySelectorAll('details').forEach(element => element.open = true)"
    )
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(OVERFLOWING) == []


@pytest.mark.parametrize("width", [320, 1200])
def test_nothing_of_a_validation_sticks_out(browser, validation, width):
    test_nothing_sticks_out(browser, validation, width)


def test_no_console_message_and_no_request_but_the_file(browser, report):
    browser.get_log("performance")
    browser.get_log("browser")
    open_report(browser, report)
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requested = {
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    }
    assert requested <= {report.as_uri(), "data:,"}
    assert report.as_uri() in requested


def test_slider_moves_numbers_and_marker_with_the_keyboard(browser, report):
    open_report(browser, report)
    data = json.loads(
        browser.execute_script("return document.getElementById('people-data').textContent")
    )
    slider = browser.find_element("id", "horizon")
    marker = browser.find_element("css selector", ".marker")
    start, place = int(slider.get_property("value")), float(marker.get_attribute("x1"))
    slider.send_keys(Keys.ARROW_RIGHT * 20)
    step = int(slider.get_property("value"))
    assert step == start + 20
    assert float(marker.get_attribute("x1")) > place
    assert slider.get_attribute("aria-valuetext") == f"year {data['times'][step]}"
    assert browser.find_element("id", "horizon-label").text == f"year {data['times'][step]}"
    for got, curves in zip(shown(browser), data["people"], strict=True):
        assert got == pytest.approx([100 * curve[step] for curve in curves], abs=0.051)
    slider.send_keys(Keys.HOME)
    assert shown(browser) == [[100.0, 0.0, 0.0]] * 3
    assert float(marker.get_attribute("x1")) == float(marker.get_attribute("data-left"))


def test_page_says_the_same_before_and_after_its_script_ran(browser, report):
    open_report(browser, report)
    after = shown(browser)
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get(report.as_uri())
    slider_is_hidden = not browser.find_element("css selector", ".slider").is_displayed()
    table_is_shown = browser.find_element("css selector", ".fixed").is_displayed()
    before = [
        [float(cell.get_attribute("textContent").rstrip("%")) for cell in cells]
        for cells in (
            sorted(
                card.find_elements("css selector", "[data-state]"),
                key=lambda cell: cell.get_attribute("data-state"),
            )
            for card in browser.find_elements("class name", "person")
        )
    ]
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert before == [pytest.approx(person, abs=0.11) for person in after]
    assert slider_is_hidden
    assert table_is_shown


def test_calibration_follows_its_slider(browser, report):
    open_report(browser, report)
    slider = browser.find_element("id", "when")

    def shown_titles():
        return [
            caption.text
            for caption in browser.find_elements("css selector", ".at figcaption")
            if caption.is_displayed()
        ]

    before = shown_titles()
    assert len(before) == 2
    slider.send_keys(Keys.HOME)
    after = shown_titles()
    assert len(after) == 2
    assert after != before
    label = browser.find_element("id", "when-label").text
    assert all(title.endswith(f"by {label}") for title in after)


def test_charts_have_tooltips(browser, report):
    open_report(browser, report)
    tip = browser.find_element("id", "tip")
    assert not tip.is_displayed()
    strip = browser.find_element("css selector", "#curves ~ .figures rect.hit:nth-of-type(12)")
    # Scrolling hides the tooltip, and browsers report it only with the next frame.
    browser.execute_async_script(
        """
        arguments[0].scrollIntoView({block: 'center'});
        requestAnimationFrame(() => requestAnimationFrame(arguments[1]));
        """,
        strip,
    )
    ActionChains(browser).move_to_element(strip).perform()
    assert tip.is_displayed()
    lines = tip.text.split("\n")
    assert lines[0].startswith("year ")
    assert {line.rsplit(":")[0] for line in lines[1:]} == {*NAMES[1:], "event-free"}
    ActionChains(browser).move_to_element(browser.find_element("id", "curves")).perform()
    assert not tip.is_displayed()


def test_menu_of_a_phone_is_whole(browser, report):
    open_report(browser, report, width=390)
    for link in browser.find_elements("css selector", "nav a"):
        place = link.rect
        assert place["x"] >= 0
        assert place["x"] + place["width"] <= 390


def test_open_tables_do_not_overlap_in_print(browser, report):
    open_report(browser, report, width=700)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    browser.execute_script(
        "document.querySelectorAll('details').forEach(element => element.open = true)"
    )
    overlaps = browser.execute_script("""
        const boxes = Array.from(document.querySelectorAll("figure")).filter(
            figure => figure.getBoundingClientRect().height).map(figure => {
            const table = figure.querySelector("table");
            const box = figure.getBoundingClientRect();
            const right = table ? table.getBoundingClientRect().right : box.right;
            return [box.left, box.top, Math.max(right, box.right), box.bottom];
        });
        const found = [];
        boxes.forEach((a, i) => boxes.slice(i + 1).forEach(b => {
            if (a[0] < b[2] - 1 && b[0] < a[2] - 1 && a[1] < b[3] - 1 && b[1] < a[3] - 1)
                found.push([a, b]);
        }));
        return found;
    """)
    assert overlaps == []


def test_print_shows_fixed_horizons_instead_of_the_slider(browser, report):
    open_report(browser, report)
    visible = "return getComputedStyle(document.querySelector(arguments[0])).display"
    assert browser.execute_script(visible, ".fixed") == "none"
    assert browser.execute_script(visible, ".slider") != "none"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser.execute_script(visible, ".fixed") != "none"
    assert browser.execute_script(visible, ".slider") == "none"
    assert browser.execute_script(visible, ".marker") == "none"


def test_an_injected_script_does_not_run(browser, report):
    open_report(browser, report)
    browser.execute_script("""
        const script = document.createElement("script");
        script.textContent = "window.injected = true";
        document.body.append(script);
    """)
    assert browser.execute_script("return window.injected") is None
    browser.get_log("browser")


def test_dark_mode_is_dark_and_readable(browser, report):
    lightness = """
        const style = getComputedStyle(document.body);
        const mean = colour => colour.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0) / 3;
        return [mean(style.backgroundColor), mean(style.color)];
    """
    open_report(browser, report, colours="dark")
    paper, ink = browser.execute_script(lightness)
    assert paper < 60 < 180 < ink
    open_report(browser, report)
    paper, ink = browser.execute_script(lightness)
    assert ink < 60 < 180 < paper


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Address of a service on this machine, with a category and a name that is no HTML."""
    data = make_competing_risks(300, n_causes=2, n_features=2, random_state=0)
    X = data.X.assign(ward=pd.Categorical(["a", "it's <b>"] * 150))
    path = tmp_path_factory.mktemp("service") / "model"
    HazardBoost(n_estimators=10, random_state=0).fit(X, data.y).save(path)
    server = uvicorn.Server(uvicorn.Config(application(path), port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join()


def test_a_person_is_entered_and_predicted(browser, service):
    browser.get_log("browser")
    browser.get(service)
    wait = WebDriverWait(browser, 10)
    ward = wait.until(lambda page: page.find_element("name", "ward"))
    ward.send_keys("it's <b>")
    browser.find_element("name", "x0").send_keys("0.5")
    browser.find_element("css selector", "button").click()
    wait.until(lambda page: page.find_elements("css selector", "#drivers table"))
    cells = [cell.text for cell in browser.find_elements("css selector", "#table td")]
    shares = [line for cell in cells for line in cell.splitlines()]
    last = [float(share.rstrip(" %")) for share in shares if share.endswith("%")]
    assert last  # Of three states at several times: each column adds up to 100 %.
    by_state = np.reshape(last, (3, -1))
    assert by_state.sum(axis=0) == pytest.approx(100, abs=1.1)
    assert len(browser.find_elements("css selector", "#table .band")) == len(last)
    assert len(browser.find_elements("css selector", "#chart path")) == 3
    assert browser.find_element("id", "problem").text == ""
    assert browser.get_log("browser") == []
    command = browser.find_element("id", "command").get_attribute("textContent")
    sent = json.loads(command.split(" -d ")[1].strip("'"))
    assert sent["people"] == [{"x0": 0.5, "x1": None, "ward": "it's <b>"}]
    for width in (390, 1200):
        open_page(browser, f"{service}docs", width=width)
        wait.until(lambda page: page.find_element("id", "command").text)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
