"""Numbers of results: each is in a file that its section of the page names."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pandas as pd
import pytest

from examples.records.checker import check
from examples.records.grey import grey_pattern
from solvers.certificates import Certificate
from tests.thoroughly import few_of

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "docs" / "gallery"

#: Settings, margins and levels that stand in sentences; no results.
SETTINGS = {"0.005", "0.01", "0.02", "0.1", "0.2", "0.25", "0.3", "0.5", "0.05", "0.9", "1.0", "95.0"}

NUMBER = re.compile(r"(?<![\w.,/(])[-+]?\d*\.\d+(?:e-\d+)?(?![\w.]*\.(?:csv|png))|(?<=\()[-+]?\d*\.\d+(?:e-\d+)?")


#: A difference with its interval, and the marks behind it.
MARKED = re.compile(r"([-+]\d*\.\d+ ± \d*\.\d+)((?: ?\\?\*)?(?: =)?)")


def numbers_in(text: str) -> set[float]:
    """Read every number of a text, of tables and of cells like "+0.1 ± 0.2"."""
    return {float(each) for each in re.findall(r"\d+\.?\d*(?:e-?\d+)?|\.\d+", text)}


def sections(page: str) -> list[tuple[str, str]]:
    """Split a page at its headings."""
    parts = re.split(r"^(#+ .*)$", page, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def decimals(text: str) -> list[tuple[str, float, float]]:
    """Read the decimals of a text that are no settings: as they stand there, their values, half of the last digit."""
    told = []
    for found in NUMBER.findall(re.sub(r"`[^`]*`|<!--.*?-->|\]\([^)]*\)", " ", text)):
        plain = found.lstrip("+-")
        if f"{float(plain):g}" in {f"{float(each):g}" for each in SETTINGS}:
            continue
        (digits, _, power), value = plain.partition(".")[2].partition("e"), float(plain)
        told.append((found, value, 0.5000001 * 10.0 ** (int(power or 0) - len(digits))))
    return told


def beyond(told: list[tuple[str, float, float]], pool: set[float]) -> list[str]:
    """List the decimals that no number of the pool rounds to, as it is or in per cent."""
    return [
        found
        for found, value, half in told
        if not any(abs(each - value) <= half or abs(100 * each - value) <= half for each in pool)
    ]


def without_a_file(text: str, pool: set[float]) -> list[str]:
    """List the decimals of a text that no number of the pool rounds to, as it is or in per cent."""
    return beyond(decimals(text), pool)


#: A value with what may be to either side of it: both are of one row of a file.
PAIR = re.compile(r"[-+]?(\d*\.\d+) ± (\d*\.\d+)")


def anchor(heading: str) -> str:
    """What links call a heading."""
    return re.sub(r"[^\w -]", "", heading.lstrip("# ")).strip().lower().replace(" ", "-")


def rows_of(text: str, folder: Path) -> list[set[float]]:
    """Read the numbers of the files that a text links to, row by row."""
    named = re.findall(r"\]\((\w+\.csv)\)", text)
    lines = [line for name in named for line in (folder / name).read_text(encoding="utf-8").splitlines()]
    return [numbers_in(line) for line in lines]


def published(heading: str) -> list[set[float]]:
    """Read the numbers of the paper that a section is about, if it is about one."""
    name = heading.lstrip("# ").split(" ")[0].lower().replace("-", "_")
    path = ROOT / "examples" / "studies" / "papers" / f"{name}.csv"
    return [numbers_in(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def untold(text: str, rows: list[set[float]]) -> list[str]:
    """List what a text says and no row has: decimals, and values with deviations that are not of one row."""
    pairs = {pair: decimals(" ".join(pair)) for pair in PAIR.findall(text)}
    apart = [" ± ".join(pair) for pair, told in pairs.items() if all(beyond(told, row) for row in rows)]
    return without_a_file(text, set().union(*rows)) + apart


@pytest.fixture(scope="module")
def files() -> dict[str, list[set[float]]]:
    """Rows of the files of each section of the gallery, by what links call the section, and of each whole page."""
    found = {}
    for path in sorted(GALLERY.glob("*.md")):
        page = path.read_text(encoding="utf-8")
        found[path.name] = rows_of(page, GALLERY)
        found |= {f"{path.name}#{anchor(heading)}": rows_of(text, GALLERY) for heading, text in sections(page)}
    return found


def linked(text: str, files: dict[str, list[set[float]]]) -> list[set[float]]:
    """Rows of the files of the pages and sections of the gallery that a text links to, at least one."""
    places = re.findall(r"\]\((?:docs/gallery/)?(\w+\.md(?:#[\w-]+)?)\)", text)
    places = [place for place in places if place in files]
    assert places, f"no link to a page of the gallery: {text}"
    return [row for place in places for row in files[place]]


def test_every_number_of_the_gallery_is_in_a_file_of_its_section(files):
    told = 0
    for path in sorted(GALLERY.glob("*.md")):
        if path.stem == "index":
            continue
        for heading, text in sections(path.read_text(encoding="utf-8")):
            told += len(PAIR.findall(text))
            missing = untold(text, files[f"{path.name}#{anchor(heading)}"] + published(heading))
            assert not missing, f"{path.name}, {heading}: {missing} in none of the files that the section links to"
    assert told > 200


def test_every_number_at_a_glance_is_on_the_page_that_its_row_links_to(files):
    rows = [line for line in (GALLERY / "index.md").read_text(encoding="utf-8").splitlines() if line.startswith("| [")]
    pages = {path.stem for path in GALLERY.glob("*.md")} - {"index", "provenance"}
    assert {re.findall(r"\((\w+)\.md", row)[0] for row in rows} == pages
    for row in rows:
        missing = untold(row, linked(row, files))
        assert not missing, f"{missing} in none of the files of the page that the row links to: {row}"


def test_every_number_of_the_readme_is_in_the_section_that_it_links_to(files):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    results = dict(sections(text))["## Results"]
    told = re.split(r"^\* ", results, flags=re.MULTILINE)[1:]
    assert len(told) >= 5
    for each in told:
        if measured := re.match(r"\[[^]]*\]\((docs/benchmarks/\w+\.md)\)", each):  # a page that has a test of its own
            assert numbers_in(each) <= numbers_in((ROOT / measured[1]).read_text(encoding="utf-8")), each
            continue
        missing = untold(each, linked(each, files))
        assert not missing, f"{missing} in none of the files of the section that README links to: {each}"
    everywhere = [row for rows in files.values() for row in rows]
    assert not untold(re.sub(r"```.*?```", "", text.replace(results, ""), flags=re.DOTALL), everywhere)


#: Versions, identifiers of papers and what order statistics cover: no results.
KNOWN = r"(?<!\d)(?:3\.1[123]|1\.41|2\.0|10\.1287|2401\.09439|0\.9375|0\.969)(?!\d)"

#: A record of its days, with numbers of machines and versions that are gone.
ARCHIVES = {"history"}


def derived(page: str) -> list[set[float]]:
    """Compute what a page says that its files do not say in these words: shares, ratios, gaps."""
    benchmarks, best = ROOT / "docs" / "benchmarks", 44_759_294
    if page == "tai256c":
        certificate = Certificate.load(benchmarks / "tai256c.npz")
        proved = 100_000 * 92 * 91 - check(grey_pattern(16, 16, 92), certificate)
        gaps = {100 * (best - bound) / best for bound in (proved, 44_095_032)} | {1.25}  # the last is a paper's own
        left = pd.read_csv(benchmarks / "one_cell_fixed.csv").query("torus == '6 x 6'")
        share = left["gap, %, one cell fixed"] / left["gap, %"]
        gap = 100 * (best - proved) / best
        return [gaps | {gap * share.min(), gap * share.max()}]
    if page == "few_of_many":
        equal = pd.read_csv(benchmarks / "tenth_equal.csv")
        best = equal.groupby("round")["objective"].transform("max")
        distance = (equal["bound"] - best) / best
        of_each = distance.groupby([equal["method"], equal["round"].str.partition("-")[0]]).agg(["median", "max"])
        return [set(of_each.to_numpy().ravel())]
    return []


#: Pages of results. What other pages say in numbers may be advice, such as "0.03 is a good start".
PAGES = [ROOT / "paper.md", *sorted((ROOT / "docs" / "benchmarks").glob("*.md"))]


#: What the last one says follows from a proof, which is checked for it: some seconds.
LOOKED_AT = sorted((each for each in PAGES if each.stem not in ARCHIVES), key=lambda path: path.stem == "tai256c")


@pytest.mark.parametrize("path", few_of(LOOKED_AT, len(LOOKED_AT) - 1), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_number_of_a_page_is_in_a_file_that_it_names(path):
    """Sentences and tables are looked at, not code; a page that names no file of results says no decimal."""
    page = path.read_text(encoding="utf-8")
    known = {each.name: each for each in [*GALLERY.glob("*.csv"), *(ROOT / "docs" / "benchmarks").rglob("*.csv")]}
    named = sorted(set(re.findall(r"\w[\w-]*\.csv", page)) & set(known))
    rows = [numbers_in(line) for name in named for line in known[name].read_text(encoding="utf-8").splitlines()]
    rows += derived(path.stem)
    text = re.sub(r"^```.*?^```|\$[^$]*\$", " ", page, flags=re.DOTALL | re.MULTILINE)
    assert not untold(re.sub(KNOWN, " ", text), rows or [set()])


def marks_in(text: str) -> set[tuple[str, str]]:
    """Read cells like "+0.1 ± 0.2* =": the two numbers, and what stands behind them."""
    return {(cell, rest.replace("\\", "").replace(" ", "")) for cell, rest in re.findall(MARKED, text)}


@pytest.mark.parametrize(("page", "cells"), [("exact_vs_heuristic", 80), ("exact_selectors", 27)])
def test_stars_of_differences_are_those_of_the_file(page, cells):
    """A star is "beyond chance after adjustment", which only the file's p-values say."""
    text = (GALLERY / f"{page}.md").read_text(encoding="utf-8")
    shown = [marks_in(line) for line in text.splitlines() if line.startswith("|")]
    assert sum(map(len, shown)) > cells
    known = (GALLERY / f"{page}_table.csv").read_text(encoding="utf-8")
    rows = [marks_in(line) for line in known.splitlines()]
    assert [row for row in shown if not any(row <= each for each in rows)] == []


def test_the_worth_of_graphs_is_the_files_rounded():
    """Differences, intervals and their marks, "=" within the margin and a star beyond chance, row by row."""
    text = (GALLERY / "graph_worth.md").read_text(encoding="utf-8")
    with (GALLERY / "graph_worth.csv").open(encoding="utf-8") as lines:
        known = {(row["split"], row["graph"]): row for row in csv.DictReader(lines)}
    marks = {"agrees": " =", "inconclusive": "", "higher": " \\*", "lower": " \\*"}
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "]
    shown = [row for row in shown if ("Dirichlet", row[0]) in known]
    assert len(shown) == len(known) / 2
    for name, *cells, _ in shown:
        for split, cell in zip(("two labels", "Dirichlet"), cells, strict=True):
            row = known[split, name]
            apart, half = float(row["smallest loss - oracle's"]), float(row["± smallest loss"])
            expected = f"{apart:+.3f} ± {half:.3f}{marks.get(row['smallest loss is'], '')}"
            assert cell == (f"*{float(row['smallest loss']):.3f}*" if name == "oracle" else expected)


def test_every_file_of_the_gallery_is_shown_and_has_its_command():
    pages = [*GALLERY.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "get_started").glob("*.md")]
    page = "".join(path.read_text(encoding="utf-8") for path in pages)
    studies = {
        line.partition(",")[0] for line in (GALLERY / "provenance.csv").read_text(encoding="utf-8").splitlines()[1:]
    }
    for path in sorted([*GALLERY.glob("*.csv"), *GALLERY.glob("*.png")]):
        if path.name == "provenance.csv" or path.with_suffix(".py").exists():  # made by the script beside it
            continue
        assert f"]({path.name})" in page, f"{path.name} is on no page"
        assert any(path.stem.startswith(study) for study in studies), f"{path.name} has no command"


def test_a_number_that_is_in_no_file_is_refused():
    pool = {0.6482, 12.0}
    assert without_a_file("0.648, 64.8 % and ± .648 of 12.0, at α = 0.1 (0.649)", pool) == ["0.649"]
    assert without_a_file("see `x 0.7` and [0.8](a0.9.csv)", pool) == ["0.8"]
    assert untold("1.5 ± 0.4 and 2.5 ± 0.4", [{1.5, 0.4}, {2.5, 0.7}]) == ["2.5 ± 0.4"]


def test_every_figure_of_the_gallery_has_a_take_away():
    """Below each picture stands a line in italics: what to see in it."""
    page = "".join(path.read_text(encoding="utf-8") for path in sorted(GALLERY.glob("*.md")))
    pictures = re.findall(r"^!\[.*\n", page, flags=re.MULTILINE)
    said = re.findall(r"^!\[.*\n\n\*([A-Z][^*]{40,}\.)\*\n\n", page, flags=re.MULTILINE)
    assert len(said) == len(pictures) >= 15


def test_every_study_says_what_would_change_its_finding():
    studies = [path for path in sorted(GALLERY.glob("*.md")) if path.stem not in ("index", "provenance")]
    assert len(studies) >= 16
    for path in studies:
        text = path.read_text(encoding="utf-8")
        assert len(re.findall(r"^\*\*What would change our mind\*\*: ", text, flags=re.MULTILINE)) == 1, path.name
