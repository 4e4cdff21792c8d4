"""The built site in a real browser: ``make docs``, then ``python -m pytest -m site``."""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from solvers.problem import FAMILIES

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
PAGES = [
    "index",
    "get_started/quickstart",
    "choose",
    "mathematics/dispersion",
    "examples/fedgs",
    "gallery/index",
    "gallery/optimisers_curse",
    "benchmarks/index",
    "tutorials/alpha",
    "reference/index",
]

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
    """A page that may load the site alone: a request for anything else fails the test."""
    outside: list[str] = []

    def refuse(route):
        outside.append(route.request.url)
        route.abort()

    context = browser.new_context(base_url=address, permissions=["clipboard-read", "clipboard-write"])
    context.route(lambda url: not url.startswith(address), refuse)
    page = context.new_page()
    page.set_default_timeout(60_000)
    yield page
    context.close()
    assert outside == []


def seen():
    """The pages to look at in a browser: all, but of those of public names, which are alike, one in twenty."""
    names = [name for name in written() if "/api/" in name]
    return [name for name in written() if "/api/" not in name or names.index(name) % 20 == 0]


def written():
    """Every page of the site but the sources of modules, by its path."""
    pages = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    return [name for name in pages if not name.startswith(("_modules", "_static"))]


@pytest.mark.parametrize("name", PAGES)
def test_no_errors_in_the_console(page, name):
    said = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("response", lambda answer: said.append(answer.url) if answer.status >= 400 else None)
    page.goto(f"/{name}.html", wait_until="load")
    assert said == []


def test_no_page_is_wider_than_a_phone(page):
    page.set_viewport_size({"width": 360, "height": 740})
    wide = {}
    for name in seen():
        page.goto(f"/{name}", wait_until="load")
        if page.locator("article .math").count():
            page.wait_for_function("document.querySelector('mjx-container') !== null")
        over = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        wide |= {name: over} if over > 0 else {}
    assert wide == {}


def test_formulas_are_set_without_a_network(page):
    page.goto("/mathematics/dispersion.html", wait_until="load")
    page.wait_for_selector("article mjx-container mjx-math")
    assert page.evaluate("document.querySelectorAll('mjx-merror').length") == 0
    assert "\\max_" not in page.locator("article").inner_text()


class _Links(HTMLParser):
    """Where a page leads, and what can be led to on it."""

    def __init__(self, path):
        super().__init__()
        self.links, self.places = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.places |= {values[key] for key in ("id", "name") if values.get(key)}
        self.links += [values[key] for key in ("href", "src") if values.get(key)]


def test_links_lead_somewhere():
    read = functools.cache(_Links)
    dead = []
    for name in written():
        page = (SITE / name).resolve()
        for link in read(page).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            place = unquote(parts.fragment)
            there = target.is_file() and (not place or target.suffix != ".html" or place in read(target).places)
            dead += [] if there else [f"{name}: {link}"]
    assert dead == []


@pytest.mark.parametrize("name", PAGES)
def test_every_picture_has_a_text_alternative(page, name):
    page.goto(f"/{name}.html", wait_until="load")
    texts = page.evaluate("[...document.querySelectorAll('article img')].map(image => image.alt)")
    assert [text for text in texts if len(text) < 5] == []


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_pictures(page, family):
    page.goto(f"/mathematics/{family}.html", wait_until="load")
    texts = page.evaluate("[...document.querySelectorAll('article .cell_output img')].map(image => image.alt)")
    assert texts
    assert [text for text in texts if " " not in text] == []  # a sentence, not the name of a file


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("dispersion", "mathematics/dispersion"),
        ("quickstart", "get_started/quickstart"),
        ("GPU", "get_started/installation"),
        ("FAQ", "questions"),
        ("BibTeX", "project/citing"),
        ("citation", "project/citing"),
        ("privacy", "project/help"),
        ("bandit", "get_started/concepts"),
        ("changelog", "project/changelog"),
        ("alpha", "tutorials/alpha"),
        ("CIFAR-10", "tutorials/cifar10"),
        ("FedXplore", "get_started/why"),
        ("deadline", "tutorials/index"),
        ("migrate", "how_to/from_gurobi"),
        ("cheat sheet", "reference/cheat_sheet"),
        ("FEMNIST", "how_to/own_data"),
        ("Slurm", "how_to/cluster"),
        ("Hugging Face", "how_to/own_data"),
        ("differential privacy", "project/limits"),
    ],
)
def test_search_finds_a_page(page, words, found):
    page.goto(f"/search.html?q={words}", wait_until="load")
    page.wait_for_selector(f'#search-results li a[href*="{found}.html"]', state="attached")  # rows come one by one


def test_code_fits_a_window(page):
    """No code and no output scrolls sideways where the window is 1 200 pixels wide."""
    page.set_viewport_size({"width": 1200, "height": 900})
    wide = {}
    for name in seen():
        page.goto(f"/{name}", wait_until="load")
        over = page.evaluate(
            "[...document.querySelectorAll('article pre')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
        )
        wide |= {name: over} if over else {}
    assert wide == {}


def test_names_in_the_text_lead_to_their_pages(page):
    page.goto("/choose.html", wait_until="load")
    link = page.locator("article td a", has_text="CoverageProblem").first
    assert link.get_attribute("href").endswith("api/solvers.coverage.CoverageProblem.html")
    link.click()
    assert "from solvers.coverage import CoverageProblem" in page.locator("article").inner_text()


@pytest.mark.parametrize("name", [*PAGES, "examples/index", "reference/generated/api-solvers"])
def test_pages_can_be_listened_to(page, name):
    """What the theme leaves out is filled in: levels of headings, names of landmarks and of links."""
    page.goto(f"/{name}.html", wait_until="load")
    missing = page.evaluate(
        """() => [
            ...document.querySelectorAll('[role=heading]:not([aria-level])'),
            ...document.querySelectorAll('aside:not([aria-label])'),
            ...[...document.querySelectorAll('article a')].filter(a => !(a.textContent.trim() || a.ariaLabel
                || a.title || a.querySelector('img[alt]:not([alt=""])'))),
            ...[...document.querySelectorAll('.table-wrapper')].filter(e => e.scrollWidth > e.clientWidth
                && e.tabIndex !== 0),
        ].map(e => e.outerHTML.slice(0, 100))"""
    )
    assert missing == []


def test_code_is_copied(page):
    page.goto("/get_started/quickstart.html", wait_until="load")
    block = page.locator("div.cell_input div.highlight").first
    block.hover()
    block.locator("button.copybtn").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("import numpy as np")
    assert "solve(problem" in copied


def test_print_has_no_navigation(page):
    page.goto("/get_started/quickstart.html", wait_until="load")
    page.emulate_media(media="print")
    assert not page.locator(".sidebar-drawer").is_visible()
    assert not page.locator(".skip-to-content").is_visible()  # it would lie over the text of every sheet


def test_tables_fit_a_sheet(page):
    page.set_viewport_size({"width": 720, "height": 1000})  # an A4 sheet without its margins
    page.emulate_media(media="print")
    page.goto("/gallery/optimisers_curse.html", wait_until="load")
    edges = "[...document.querySelectorAll('SELECTOR')].map(element => element.getBoundingClientRect().right)"
    (sheet,) = page.evaluate(edges.replace("SELECTOR", "article"))
    tables = page.evaluate(edges.replace("SELECTOR", "article table"))
    assert tables
    assert sheet < 730
    assert [edge for edge in tables if edge > sheet + 5] == []


def test_the_cheat_sheet_is_one_sheet(page):
    page.goto("/reference/cheat_sheet.html", wait_until="load")
    sheets = [page.pdf(prefer_css_page_size=True)]
    if shutil.which("chromium"):  # make docs prints it, too
        sheets.append((SITE / "reference" / "cheat_sheet.pdf").read_bytes())
    assert [len(re.findall(rb"/Type\s*/Page\b", each)) for each in sheets] == [1] * len(sheets)


def test_commands_keep_their_hyphens(page):
    page.goto("/gallery/provenance.html", wait_until="load")
    assert "python examples/studies/e3cs.py --paper" in page.locator("table.provenance").inner_text()
