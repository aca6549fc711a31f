"""The documentation as a site (`make docs-site`): complete, every link leads somewhere, nothing is loaded from elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote, urldefrag

import pytest

from tests.support.console import ROOT
from tests.support.needs import lacking

try:
    import mkdocs  # noqa: F401  # its program is used
except ImportError:
    lacking("needs mkdocs-material", of_module=True)
if shutil.which("mandoc") is None:
    lacking("needs mandoc", of_module=True)
pytestmark = pytest.mark.xdist_group("site")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "site"
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "--site-dir", folder]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    return folder


class Page(HTMLParser):
    """The links, the resources and the anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.resources, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag in ("script", "img") and values.get("src"):
            self.resources.append(values["src"])
        if tag == "link" and values.get("href"):
            self.resources.append(values["href"])


def test_every_page_of_the_project_and_every_man_page_is_in_it(site):
    documents = {path.stem for path in (ROOT / "docs").glob("*.md")} | {"index", "changelog", "contributing"}
    assert documents <= {path.stem for path in site.glob("*.html")}
    assert {path.stem for path in (ROOT / "man").glob("*.1")} == {path.stem for path in (site / "man").glob("*.html")}


def test_every_link_and_every_anchor_leads_somewhere(site):
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    wrong, inside = [], 0
    for path, page in pages.items():
        for link in [*page.links, *page.resources]:
            target, anchor = urldefrag(link)
            if "://" in target or target.startswith("data:"):
                continue
            inside += 1
            found = (path.parent / unquote(target)).resolve() if target else path
            found = found / "index.html" if found.is_dir() else found
            if not found.is_file() or (anchor and found in pages and unquote(anchor) not in pages[found].anchors):
                wrong.append(f"{path.relative_to(site)}: {link}")
    assert wrong == []
    assert inside > 1000
    assert [link for page in pages.values() for link in page.resources if "://" in link] == []


def test_files_outside_of_the_documentation_are_in_it(site):
    for name in ("packaging/kubernetes/check-job.yaml", "kafkalog_cli/schema.json"):
        assert (site / "files" / name).read_bytes() == (ROOT / name).read_bytes()


def test_the_search_knows_options_codes_and_documents(site):
    places = {one["location"].partition("#")[0]: "" for one in json.loads((site / "search/search_index.json").read_text())["docs"]}
    for one in json.loads((site / "search/search_index.json").read_text())["docs"]:
        places[one["location"].partition("#")[0]] += one["text"]
    assert "--salvage" in places["man/kafkalog-recover.html"]
    assert "torn-tail" in places["findings.html"]
    assert "read_batches" in places["api.html"]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.mark.browser
@pytest.mark.parametrize("width", [400, 1400])
def test_pages_are_shown_without_errors_and_fit_the_window(site, width):
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        lacking("playwright is not installed")
    program = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
    if program is None:
        lacking("Chromium is not installed")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server, sync_playwright() as playwright:
        Thread(target=server.serve_forever, daemon=True).start()
        base, problems, wide = f"http://127.0.0.1:{server.server_port}/", [], []
        browser = playwright.chromium.launch(executable_path=program)
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith((base, "data:")) else problems.append(request.url))
        for name in ("index.html", "tour.html", "findings.html", "benchmarks.html", "man/kafkalog-ls.html", "man/kafkalog-fetch.html"):
            page.goto(base + name)
            if page.evaluate("document.documentElement.scrollWidth") > width:
                wide.append(name)
        page.locator("input.md-search__input").evaluate("one => one.focus()")
        page.keyboard.type("salvage")
        page.wait_for_selector("li.md-search-result__item")
        browser.close()
        server.shutdown()
    assert (problems, wide) == ([], [])
