"""The page of `kafkalog report` in Chromium: no error, no request, charts drawn, and nothing wider than the window."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.support.needs import lacking
from tests.support.run import kafkalog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=alert(1)>"
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WIDTHS = (400, 800, 1400)
WIDER = "Math.max(...[...document.querySelectorAll('main, main > :not(.wide), figure, figure > svg, .lane')].map(one => one.scrollWidth))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        lacking("playwright is not installed")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        lacking("Chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def page_file(own_cluster_corpus, tmp_path_factory) -> Path:
    """A node with a damaged log, a missing segment, and a topic and a title that are markup."""
    top = tmp_path_factory.mktemp("page")
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1", top / "n1")
    for path in (top / "n1/d1/short-0").glob(f"{40:020d}.*"):
        path.unlink()
    shutil.copytree(top / "n1/d1/short-0", top / f"n1/d1/{HOSTILE}-0")
    done = kafkalog("report", "-o", str(top / "page.html"), "--title", f"</title><script>alert(2)</script>{HOSTILE}", str(top / "n1"))
    assert done.status == 4
    return top / "page.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_shown_without_errors_and_requests(browser, page_file, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    page.on("request", lambda request: problems.append(request.url) if request.url != page_file.as_uri() else None)
    page.goto(page_file.as_uri())
    assert problems == []
    assert page.locator("h1").inner_text() == f"</title><script>alert(2)</script>{HOSTILE}"
    assert HOSTILE in page.locator("main").inner_text()
    assert page.locator("img, script").count() == 0
    bars = page.locator("figure svg rect.rect")
    assert bars.count() > 20
    assert all(box["height"] > 0 and box["width"] > 0 for box in (bars.nth(at).bounding_box() for at in range(20)))
    assert page.evaluate(WIDER) <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 28)"
    assert dark == (scheme == "dark")
    page.close()


def test_the_page_prints(browser, page_file):
    page = browser.new_page(color_scheme="dark")
    page.goto(page_file.as_uri())
    printed = page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.close()
