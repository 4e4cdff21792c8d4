"""The built site in a real browser: ``make docs``, then ``python -m pytest -m site``."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import threading
from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
PAGES = ["index", "start", "choose", "mathematics/dispersion", "examples/fedgs", "gallery/index", "reference/index"]

pytestmark = pytest.mark.site


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    """The site, served as a web server would."""
    assert (SITE / "index.html").exists(), "there is no site; run make docs first"
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def browser():
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sync_playwright = None
    if executable is None or sync_playwright is None:
        missing = "chromium is not installed" if executable is None else "playwright is not installed"
        if os.environ.get("FEDSELECT_REQUIRE_BROWSER"):
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser, address):
    """A page that may load the site alone: the network, from where MathJax comes, is not there in a test."""
    context = browser.new_context(base_url=address, permissions=["clipboard-read", "clipboard-write"])
    context.route(lambda url: not url.startswith(address), lambda route: route.fulfill(status=200, body=""))
    page = context.new_page()
    page.set_default_timeout(60_000)
    yield page
    context.close()


@pytest.mark.parametrize("name", PAGES)
def test_no_errors_in_the_console(page, name):
    said = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("response", lambda answer: said.append(answer.url) if answer.status >= 400 else None)
    page.goto(f"/{name}.html", wait_until="load")
    assert said == []


@pytest.mark.parametrize("name", PAGES)
def test_no_page_is_wider_than_a_phone(page, name):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/{name}.html", wait_until="load")
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


@pytest.mark.parametrize("name", PAGES)
def test_every_picture_has_a_text_alternative(page, name):
    page.goto(f"/{name}.html", wait_until="load")
    texts = page.evaluate("[...document.querySelectorAll('article img')].map(image => image.alt)")
    assert [text for text in texts if len(text) < 5] == []


def test_search_finds_a_page(page):
    page.goto("/search.html?q=dispersion", wait_until="load")
    page.wait_for_selector("#search-results li a")
    assert any(
        "dispersion" in link for link in page.eval_on_selector_all("#search-results li a", "l => l.map(a => a.href)")
    )


def test_code_is_copied(page):
    page.goto("/start.html", wait_until="load")
    block = page.locator("div.cell_input div.highlight").first
    block.hover()
    block.locator("button.copybtn").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("import numpy as np")
    assert "solve(problem" in copied


def test_print_has_no_navigation(page):
    page.goto("/start.html", wait_until="load")
    page.emulate_media(media="print")
    assert not page.locator(".sidebar-drawer").is_visible()
