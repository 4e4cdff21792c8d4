"""The page of a report in a real browser, headless; ``FEDSELECT_REQUIRE_BROWSER=1`` makes a missing one a failure."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager

import pytest
from matplotlib.figure import Figure

from fedselect.reports import read_report
from fedselect.reports.document import (
    Cell,
    Column,
    Picture,
    Report,
    Table,
    as_html,
    count,
    number,
    percent,
    save,
    seconds,
    word,
)

#: Names that would do harm if they were taken for markup.
HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror="alert(1)">', "</script><script>alert(1)</script>")


@pytest.fixture(scope="module")
def browser():
    executable = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sync_playwright = None
    if executable is None or sync_playwright is None:
        missing = "chromium is not installed" if executable is None else "playwright is not installed"
        (pytest.fail if os.environ.get("FEDSELECT_REQUIRE_BROWSER") == "1" else pytest.skip)(missing)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable)
        yield browser
        browser.close()


class Seen:
    """What a page did beside being shown."""

    def __init__(self, page):
        self.console, self.errors, self.requests, self.refused, self.dialogs = [], [], [], [], []
        page.on("console", lambda message: self.console.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("requestfailed", lambda request: self.refused.append((request.url, request.failure)))
        page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))


@pytest.fixture
def opened(browser):
    """Open a file in a new page: ``opened(path)`` gives the page and what it did."""
    pages = []

    @contextmanager
    def _closed():
        yield
        for page in pages:
            page.close()

    def _open(path, **options):
        page = browser.new_page(**options)
        page.set_default_timeout(10_000)
        pages.append(page)
        seen = Seen(page)
        page.goto(path.as_uri())
        return page, seen

    with _closed():
        yield _open


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A page with every kind of cell, in an order that is sorted by nothing."""
    rows = (
        (word("run 10"), count(10), seconds(9.5, 10.0), percent(0.5), number(-1e-7), Cell("-")),
        (word(HOSTILE[0]), count(9), seconds(0.2, 0.3), percent(None), number(2.0, "{:.1f}", 0.5), word("b")),
        (word("run 9"), count(None), seconds(0.0095), percent(0.07), number(float("inf"), "more"), word("a")),
        (word(HOSTILE[1]), count(100), seconds(None), percent(0.6), number(1e6), word("a")),
    )
    headings = ("name", "count", "time", "share", "value", "group")
    columns = tuple(Column(heading, heading not in ("name", "group")) for heading in headings)
    long = tuple((count(place), number(place % 7)) for place in range(200))
    figure = Figure(figsize=(4, 2))
    figure.subplots().plot([0, 1])
    report = Report(
        f"Title {HOSTILE[2]}",
        f"Summary {HOSTILE[1]}",
        ((HOSTILE[0], HOSTILE[1]),),
        (f"Note {HOSTILE[0]}",),
        (
            Table("mixed", f"Caption {HOSTILE[2]}", columns, rows),
            Table("long", "Many rows.", (Column("a"), Column("b")), long, detail=True),
        ),
        (Picture("line", f"Caption {HOSTILE[0]}", f"Alternative {HOSTILE[1]}", figure),),
    )
    path, *_ = save(report, tmp_path_factory.mktemp("made"), ["html"])
    return path


def column(page, number, table="mixed"):
    return page.locator(f"#{table} tbody tr > :nth-child({number})").all_text_contents()


def press(page, heading, key=None, table="mixed"):
    button = page.locator(f"#{table} thead").get_by_role("button", name=heading, exact=True)
    if key is None:
        button.click()
    else:
        button.press(key)


def test_page_opens_quietly_and_asks_for_nothing(opened, made):
    page, seen = opened(made)
    page.wait_for_load_state("networkidle")
    assert (seen.console, seen.errors, seen.dialogs) == ([], [], [])
    assert seen.requests == [made.as_uri()]
    assert page.title() == f"Title {HOSTILE[2]}"


def test_hostile_names_are_shown_and_do_nothing(opened, made):
    page, seen = opened(made)
    assert {*HOSTILE[:2]} <= set(column(page, 1))
    assert page.locator("script").count() == 1
    assert page.locator("img").count() == 1
    assert page.locator("figcaption").inner_text() == f"Caption {HOSTILE[0]}"
    assert page.locator("img").get_attribute("alt") == f"Alternative {HOSTILE[1]}"
    assert seen.dialogs == []


def test_numbers_are_sorted_as_numbers_and_what_is_missing_stays_last(opened, made):
    page, _ = opened(made)
    press(page, "count")
    assert column(page, 2) == ["9", "10", "100", "-"]
    assert page.locator("#mixed [aria-sort]").get_attribute("aria-sort") == "ascending"
    press(page, "count")
    assert column(page, 2) == ["100", "10", "9", "-"]
    assert page.locator("#mixed [aria-sort]").get_attribute("aria-sort") == "descending"
    press(page, "time")
    assert column(page, 3) == ["9.5 ms", "200.0 ms, 300.0 ms", "9.50 s, 10.00 s", "-"]
    press(page, "share")
    assert column(page, 4) == ["7 %", "50 %", "60 %", "-"]
    press(page, "value")
    assert column(page, 5) == ["-1e-07", "2.0 ± 0.5", "1e+06", "more"]
    assert page.locator("#mixed [aria-sort]").count() == 1


def test_rows_stay_whole_and_level_rows_keep_their_order(opened, made):
    page, _ = opened(made)
    press(page, "name")
    names = column(page, 1)
    assert names.index("run 9") < names.index("run 10")  # numbers within text count as numbers
    press(page, "count")
    press(page, "group")
    assert list(zip(column(page, 6), column(page, 2), strict=True)) == [
        ("a", "100"),
        ("a", "-"),
        ("b", "9"),
        ("-", "10"),
    ]


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_tables_are_sorted_by_keyboard(opened, made, key):
    page, _ = opened(made)
    press(page, "count", key)
    assert column(page, 2) == ["9", "10", "100", "-"]


def test_another_table_is_left_alone(opened, made):
    page, _ = opened(made)
    before = column(page, 1)
    press(page, "b", table="long")
    assert column(page, 2, "long") == sorted(column(page, 2, "long"), key=int)
    assert column(page, 1) == before


def test_security_policy_refuses_what_escaping_might_miss(opened, made):
    page, seen = opened(made)
    page.evaluate(
        """() => {
            window.refused = [];
            document.addEventListener("securitypolicyviolation", (event) => refused.push(event.effectiveDirective));
            const script = document.createElement("script");
            script.textContent = "window.harm = 1";
            const image = document.createElement("img");
            image.src = "https://example.org/x.png";
            document.body.append(script, image);
        }"""
    )
    page.wait_for_function("refused.length === 2")
    assert sorted(page.evaluate("refused")) == ["img-src", "script-src-elem"]
    assert page.evaluate("window.harm === undefined")
    assert seen.refused == [("https://example.org/x.png", "csp")]


def test_nothing_is_cut_off_on_paper(opened, made):
    page, _ = opened(made)
    hidden = "() => [...document.querySelectorAll('.scroll')].map((each) => each.scrollHeight > each.clientHeight)"
    assert page.evaluate(hidden) == [False, True]  # on the screen the long table scrolls
    page.emulate_media(media="print")
    assert page.evaluate(hidden) == [False, False]


def test_page_fits_a_narrow_screen(opened, made):
    page, _ = opened(made, viewport={"width": 360, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_on_its_ground(opened, made, scheme):
    page, _ = opened(made, color_scheme=scheme)
    colours = page.evaluate(
        """() => ["body", "figcaption", "a", "dt"].map(
            (name) => getComputedStyle(document.querySelector(name)).color
        ).concat(getComputedStyle(document.body).backgroundColor)"""
    )
    *inks, ground = [_luminance(colour) for colour in colours]
    assert (ground < 0.5) == (scheme == "dark")
    for ink in inks:  # WCAG 2.2, 1.4.3
        assert (max(ink, ground) + 0.05) / (min(ink, ground) + 0.05) >= 4.5


def _luminance(colour):
    channels = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_page_of_a_real_comparison(opened, compared, tmp_path):
    report = read_report(compared)
    path, *_ = save(report, tmp_path, ["html"])
    page, seen = opened(path)
    page.wait_for_load_state("networkidle")
    assert (seen.console, seen.errors, seen.dialogs, seen.requests) == ([], [], [], [path.as_uri()])
    sizes = page.evaluate("[...document.images].map((each) => each.complete && each.naturalWidth * each.naturalHeight)")
    assert len(sizes) == len(report.pictures) == 4
    assert all(size > 10_000 for size in sizes)
    place = [each.heading for each in report.tables[0].columns].index("test loss")
    losses = [row[place].value for row in report.tables[0].rows]
    names = [row[0].text for row in report.tables[0].rows]
    press(page, "test loss", table="results")
    assert column(page, 1, "results") == [name for _, name in sorted(zip(losses, names, strict=True))]
    assert page.evaluate("window.harm === undefined")


def test_names_stay_on_one_line_and_short_tables_whole(opened, tmp_path):
    """A picture as wide as the page scrolls within itself on a narrow screen, and letters keep their size."""
    figure = Figure(figsize=(11, 3))
    figure.subplots().plot([0, 1])
    name = "a selector with a rather long name (alpha = 5, method = branch-and-bound)"
    rows = tuple((word(name), count(k)) for k in range(60))
    columns = (Column("selector", numeric=False), Column("value"))
    report = Report(
        "Wide",
        "A summary.",
        tables=(Table("short", "Sixty rows.", columns, rows), Table("long", "More.", columns, rows * 2)),
        pictures=(Picture("wide", "A caption.", "A line.", figure),),
    )
    path = tmp_path / "page.html"
    path.write_text(as_html(report))
    page, _ = opened(path, viewport={"width": 1200, "height": 640})
    assert page.evaluate("document.querySelector('tbody th').offsetHeight") < 40
    page.set_viewport_size({"width": 360, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate("document.querySelector('tbody td').getBoundingClientRect().right") <= 360
    hidden = "() => [...document.querySelectorAll('.scroll')].map((each) => each.scrollHeight > each.clientHeight + 1)"
    assert page.evaluate(hidden) == [False, True]
    assert "More. 120 rows: the box scrolls." in page.inner_text("#caption-long")
    assert page.evaluate("document.querySelector('img').clientWidth") > 640
    assert page.evaluate("document.querySelector('.picture').clientWidth") <= 360
