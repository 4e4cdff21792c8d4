"""Reports: what is rendered as page, Markdown and LaTeX, and what is made of the folders there are."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume
from hypothesis import strategies as st
from matplotlib.figure import Figure

from fedselect import cli
from fedselect.errors import ConfigError, RunError
from fedselect.experiments.comparison import (
    choice_table,
    difference_table,
    mean_table,
    summary_table,
    tasks_of,
    verdict_of,
)
from fedselect.measures import run_measures
from fedselect.reports import read_report, result_of, same_decisions
from fedselect.reports.document import (
    Cell,
    Column,
    Picture,
    Report,
    Table,
    as_html,
    as_latex,
    as_markdown,
    count,
    frame_table,
    number,
    percent,
    save,
    seconds,
    word,
)
from fedselect.reports.document.glossary import glossary_of
from fedselect.reports.methods import _profiled
from solvers.allocation import AllocationProblem
from solvers.benchmark import Benchmark, run_benchmark
from solvers.dispersion import DispersionProblem
from tests.thoroughly import tried
from tests.waiting import HANG

#: Text as people write it, and text of nothing but characters that mean something somewhere; no control characters,
#: and spaces as the renderers leave them.
texts = st.one_of(
    st.text(st.characters(exclude_categories=("C", "Z"), include_characters=" "), min_size=1),
    st.text(st.sampled_from("""<>&"'|\\`*_~$[]{}()!#%^-+./:;=@ ab1é"""), min_size=1),
    st.sampled_from(
        ["&lt;b&gt;", "<script>alert(1)</script>", "</td>", "\\|", "__init__", "a_b", "$x^2$", "&amp;#60;"]
    ),
).map(lambda text: " ".join(text.split()) or "x")


def report_of(*rows, columns=("name", "value")):
    table = Table("table", "A caption.", tuple(Column(heading) for heading in columns), rows)
    return Report("A title", "A summary.", tables=(table,))


def picture(key="picture"):
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([0, 1])
    return Picture(key, "A caption.", "A line.", figure)


# -- cells and tables ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "text", "value"),
    [
        (number(0.123456), "0.1235", 0.123456),
        (number(1.0, "{:.2f}", 0.5), "1.00 ± 0.50", 1.0),
        (number(1.0, "{:.2f}", math.nan), "1.00", 1.0),
        (number(None), "-", None),
        (number(pd.NA), "-", None),
        (count(np.int64(7)), "7", 7.0),
        (count(math.nan), "-", None),
        (percent(0.0123), "1.23 %", 0.0123),
        (percent(1.07e-17), "0 %", 1.07e-17),
        (seconds(0.0012, 3.5), "1.2 ms, 3.50 s", 0.0012),
        (seconds(math.nan, math.nan), "-", None),
        (word("nan"), "nan", None),
        (word(math.nan), "-", None),
        (word(""), "-", None),
    ],
)
def test_cells_show_text_and_keep_the_number(cell, text, value):
    assert (cell.text, cell.value) == (text, value)


def test_tables_and_pictures_refuse_what_cannot_be_shown():
    with pytest.raises(ValueError, match="has 2 columns, but a row of 1 cells"):
        report_of((Cell("a"),))
    with pytest.raises(ValueError, match="lower-case letters, digits and hyphens; got 'a b'"):
        picture("a b")


def test_long_frames_say_what_is_left_out_and_empty_columns_go():
    frame = pd.DataFrame(
        {"a_b": range(1500), "none": [None] * 1500, "text": ["t"] * 1500, "some": [1.0] + [None] * 1499}
    )
    table = frame_table("long", "Rows.", frame)
    assert len(table.rows) == 1000
    assert table.caption == "Rows. Of 1500 rows, the first 1000 are shown."
    assert [(column.heading, column.numeric) for column in table.columns] == [
        ("a b", True),
        ("text", False),
        ("some", True),
    ]
    assert [cell.text for cell in table.rows[0]] == ["0", "t", "1"]
    assert [cell.text for cell in table.rows[1]] == ["1", "t", "-"]


# -- the three renderers -------------------------------------------------------------------------------------------


class Cells(HTMLParser):
    """The texts of a page's cells, and the names of all elements."""

    def __init__(self, page):
        super().__init__()
        self.cells, self.tags, self._open = [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self._open = tag in ("td", "th")
        if self._open:
            self.cells.append("")

    def handle_endtag(self, tag):
        self._open = self._open and tag not in ("td", "th")

    def handle_data(self, data):
        if self._open:
            self.cells[-1] += data


@tried(15, 60, texts, texts)
def test_page_shows_any_text_as_it_is(name, value):
    assume(not glossary_of((name, value)))  # a word of the glossary has an entry at the end
    plain, hostile = (Cells(as_html(report_of((Cell(a), Cell(b))))) for a, b in (("n", "v"), (name, value)))
    assert hostile.cells == ["name", "value", name, value]
    assert hostile.tags == plain.tags


@tried(15, 60, texts, texts)
def test_markdown_table_keeps_its_columns_and_shows_any_text_as_it_is(name, value):
    row = as_markdown(report_of((Cell(name), Cell(value)))).splitlines()[-1]
    cells = re.split(r"(?<!\\)(?:\\\\)*\|", row)
    assert len(cells) == 4
    shown = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", row)  # a backslash before punctuation is not shown (CommonMark 2.4)
    assert shown == f"| {name} | {value} |"
    assert not re.search(r"(?<!\\)(?:\\\\)*[<`*\[$~]", row)


#: What the LaTeX renderer writes for characters that mean something else there.
_LATEX = re.compile(r"\\text(backslash|asciitilde|asciicircum|less|greater|bar)\{\}|\\[&%$#_{}]|\{[\[*]\}|\$\\[a-z]+\$")


@tried(15, 60, texts, texts)
def test_latex_has_no_character_that_means_something_else(name, value):
    text = as_latex(report_of((Cell(name), Cell(value))))
    row = text.split("\\midrule\n")[1].split("\n")[0].strip()
    assert row.endswith(r" \\")
    assert row[:-3].count(" & ") >= 1
    bare = _LATEX.sub("", row[:-3])
    assert bare.count("&") == 1
    assert not re.search(r"[\\%$#_{}~^<>|\[*]", bare)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", bare)


def test_control_characters_reach_no_document():
    hostile = "a\x1b[31mb\x00c\x07\u202ed\ud800*"
    report = Report(
        hostile,
        hostile,
        ((hostile, hostile),),
        (hostile,),
        (Table("t", hostile, (Column(hostile),), ((Cell(hostile),),)),),
    )
    for render in (as_html, as_markdown, as_latex):
        text = render(report)
        text.encode()  # halves of letters would not be text
        assert "a[31mb" in text.replace("{[}", "[").replace("\\[", "[")
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_a_row_of_latex_may_begin_with_a_star_or_a_bracket():
    for name in ("*a", "[a]"):
        text = as_latex(report_of((Cell(name), Cell("1"))))
        assert not re.search(r"(\\\\|rule)\s*[*\[]", text)


def test_latex_headings_pictures_and_details():
    table = Table(
        "t", "A caption.", (Column("name", numeric=False), Column("mean gap")), ((Cell("x-1"), number(-2.5)),)
    )
    details = Table("d", "Details.", (Column("a"),), ((Cell("1"),),), detail=True)
    text = as_latex(Report("T", "S", tables=(table, details), pictures=(picture(),)))
    assert r"name & mean gap \\" in text
    assert r"x-1 & -2.5 \\" in text
    assert r"\begin{tabular}{lr}" in text
    assert "Details." not in text
    assert r"\includegraphics[width=\linewidth]{picture}" in text
    for environment in ("table", "tabular", "figure"):
        assert text.count(rf"\begin{{{environment}}}") == text.count(rf"\end{{{environment}}}") == 1


def test_page_is_self_contained_and_accessible():
    table = Table("t", "A caption.", (Column("name", numeric=False), Column("n")), ((Cell("x"), number(1.23456)),))
    page = as_html(Report("T", "S", (("a", "b"),), ("Beware.",), (table,), (picture(),)))
    assert page.startswith('<!doctype html>\n<html lang="en">')
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", page)
    assert "url(" not in page
    assert "@import" not in page
    assert re.search(r'<img src="data:image/png;base64,[^"]+" alt="A line." width="192" height="96">', page)
    assert '<th scope="col" class="number">n</th>' in page
    assert '<th scope="row">x</th><td class="number" data-value="1.23456">1.235</td>' in page
    assert "Beware." in page


def test_infinite_values_are_numbers_to_the_page():
    assert 'data-value="-Infinity"' in as_html(report_of((Cell("x"), Cell("none", -math.inf))))


def test_saving_writes_what_each_kind_needs(tmp_path):
    report = Report("T", "S", pictures=(picture(),))
    assert [path.name for path in save(report, tmp_path / "a", ["html"])] == ["report.html"]
    written = save(report, tmp_path / "b", ["md", "tex"])
    assert [path.name for path in written] == ["report.md", "report.tex", "picture.png", "picture.pdf"]
    assert written[2].read_bytes().startswith(b"\x89PNG")
    assert written[3].read_bytes().startswith(b"%PDF")
    with pytest.raises(ConfigError, match="written as html, md, tex; got 'docx'"):
        save(report, tmp_path / "c", ["html", "docx"])
    assert not (tmp_path / "c").exists()
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="cannot write the report into"):
        save(report, tmp_path / "file")


# -- selectors -----------------------------------------------------------------------------------------------------


def hostile(folder):
    return next(iter(json.loads((folder / "comparison.json").read_text())["runs"]))


@pytest.fixture
def copy(compared, tmp_path):
    return shutil.copytree(compared, tmp_path / "copied")


def cut(run, rounds):
    """Make a run one that was killed in the middle of writing the line of a round."""
    for name in ("summary.json", "clients.csv", "metrics.csv"):
        (run / name).unlink()
    lines = (run / "rounds.jsonl").read_text().splitlines(keepends=True)
    (run / "rounds.jsonl").write_text("".join(lines[:rounds]) + lines[rounds][:40])


def others(notes):
    """The notes but the one that all decisions are proved, which is among them."""
    said = [note for note in notes if re.fullmatch(r"All \d+ decisions with a bound are proved optimal, the .*", note)]
    assert len(said) == 1
    return tuple(note for note in notes if note not in said)


def test_gaps_are_drawn_where_not_all_decisions_are_proved(copy):
    for path in copy.glob("fedgs-*-s0/rounds.jsonl"):
        path.write_text(path.read_text().replace('"status": "optimal"', '"status": "feasible"', 1))
    report = read_report(copy)
    assert "gap" in [picture.key for picture in report.pictures]
    assert not any("proved optimal" in note for note in report.notes)


@pytest.mark.thorough
def test_columns_are_those_that_are_named(compared, tmp_path, call):
    named = ["client_accuracy_gini", "final_loss", "client_accuracy_worst"]
    report = read_report(compared, columns=named)
    assert [table.key for table in report.tables] == ["results", "paired-differences", "runs"]
    heads = {table.key: table.texts[0] for table in report.tables}
    titles = {each.name: each.title for each in run_measures()}
    assert heads["results"] == ("selector", *(titles[name] for name in named))
    assert set(heads["paired-differences"]) == {"difference", "seeds", *(titles[name] for name in named[1:])}
    one = next(compared.glob("*-s0"))
    assert [row[0] for row in read_report(one, columns=["final_loss"]).tables[0].texts[1:]] == ["final loss"]
    for folder in (compared, one):
        with pytest.raises(ConfigError, match=r"no column 'final_los'; did you mean 'final_loss'\? \(columns: "):
            read_report(folder, columns=["final_los"])
    written = ("report", compared, "--out", tmp_path, "--columns")
    assert call(*written, "final_loss,weight_sum", "--as", "tex")[0] == 0
    text = (tmp_path / "report.tex").read_text()
    assert titles["final_loss"] in text
    assert titles["client_accuracy_worst"] not in text
    assert call(*written, "client,round", "--as", "csv")[0] == 0
    assert (tmp_path / "client_rounds.csv").read_text().startswith("client,round\n")
    code, _, error = call(*written, "client", "--as", "csv,tex")
    assert code == 2
    assert "write each alone" in error


def test_variants_of_equal_decisions_are_named():
    one, other = [{"selected": [1, 3], "weights": [0.5, 0.5]}], [{"selected": [1, 2], "weights": [0.5, 0.5]}]
    heavier = [{"selected": [1, 3], "weights": [0.5, 0.6]}]
    found = same_decisions({"a": one * 2, "b": one + other, "c": one * 2, "d": one + heavier, "e": one * 2})
    assert found == ["a, c and e made the same decisions: the same clients with the same weights in every round."]
    assert same_decisions({"a": one, "b": other}) == []


def of_losses(losses, tasks=None):
    """Runs under two seeds; of each label the test losses, and the mean validation loss where there is one."""
    runs = (
        (label, seed, {"final_loss": each[seed], "final_validation_loss": each[2], "weight_sum": 1.0})
        for label, each in losses.items()
        for seed in (0, 1)
    )
    return summary_table(runs, tasks)


def test_the_best_on_validation_is_named_with_its_test_loss():
    table = of_losses({"a": (0.3, 0.3, 0.5), "b": (0.6, 0.6, 0.4)})
    assert result_of(table).startswith("Chosen on validation: b (0.400); its test loss: 0.600. Least test loss: a, ")
    assert result_of(table[table["selector"] == "a"]) == ""
    assert result_of(of_losses({"a": (0.3, 0.3, None), "b": (0.6, 0.6, None)})).startswith(
        "Least test loss: a, 0.300 ("
    )


#: Of each selector the second value is best on validation; ``b rate=1`` has the least test loss.
SWEPT = {
    "a rate=1": (0.9, 0.9, 0.9),
    "a rate=2": (0.5, 0.6, 0.5),
    "b rate=1": (0.1, 0.1, 0.8),
    "b rate=2": (0.4, 0.5, 0.4),
    "c": (0.7, 0.7, 0.7),
}


def test_selectors_of_a_sweep_are_compared_each_at_its_chosen_value():
    table = of_losses(SWEPT)
    assert result_of(table) == (
        "Chosen on validation: a rate=2 of 2 values (0.500; its test loss: 0.550), b rate=2 of 2 values (0.400; its "
        "test loss: 0.450), c has one. Least test loss of these: b rate=2, 0.450 (b rate=2 minus a rate=2 under the "
        "same seeds: -0.100 ± 0.000, 95 % interval of 2 seeds, beyond chance)."
    )
    choice, verdict = choice_table(mean_table(table)), verdict_of(table)
    assert choice["variant"].tolist() == ["a rate=2", "b rate=2", "c"]
    assert choice["chosen_on"].tolist()[:2] == ["validation_loss", "validation_loss"]
    assert pd.isna(choice["chosen_on"][2])
    assert (verdict.minuend, verdict.reference, verdict.beyond_chance) == ("b rate=2", "a rate=2", True)
    assert difference_table(table)["reference"].unique().tolist() == ["a rate=2"]  # the table says the same
    assert verdict_of(table[table["selector"] == "c"]) is None


def test_nothing_is_chosen_across_data():
    """Of two partitions and two values of a selector: a value within each partition, and differences within it."""
    data = {each: {"data": {"name": "digits", "concentration": each}} for each in (0.1, 1.0)}
    easy = {"a concentration=1.0 rate=1": (0.1, 0.1, 0.1), "a concentration=1.0 rate=2": (0.2, 0.2, 0.2)}
    hard = {"a concentration=0.1 rate=1": (0.9, 0.9, 0.9), "a concentration=0.1 rate=2": (0.5, 0.6, 0.5)}
    tasks = tasks_of({label: data[1.0 if label in easy else 0.1] for label in (*easy, *hard)})
    table = of_losses(easy | hard, tasks)
    assert set(table["task"]) == {"concentration=1.0", "concentration=0.1"}
    result = result_of(table)
    assert result.startswith("Runs under concentration=1.0; concentration=0.1 have other tasks: nothing is chosen")
    assert "concentration=1.0: Chosen on validation: a concentration=1.0 rate=1 of 2 values (0.100" in result
    assert "concentration=0.1: Chosen on validation: a concentration=0.1 rate=2 of 2 values (0.500" in result
    choice = choice_table(mean_table(table))
    assert choice[["task", "variant"]].values.tolist() == [
        ["concentration=1.0", "a concentration=1.0 rate=1"],
        ["concentration=0.1", "a concentration=0.1 rate=2"],
    ]
    assert difference_table(table)[["selector", "reference"]].values.tolist() == [
        ["a concentration=1.0 rate=2", "a concentration=1.0 rate=1"],
        ["a concentration=0.1 rate=1", "a concentration=0.1 rate=2"],
    ]
    assert verdict_of(table) is None
    alone = of_losses({"a concentration=1.0": (0.1, 0.1, 0.1), "a concentration=0.1": (0.9, 0.9, 0.9)},
                      {f"a {task}": task for task in set(table["task"])})  # fmt: skip
    assert len(difference_table(alone)) == 0
    assert "Chosen" not in result_of(alone)
    assert tasks_of({"a": data[1.0], "a rate=2": data[1.0] | {"training": {"rate": 2}}}) == {}


def test_a_sweep_without_validation_is_chosen_by_test_loss_and_says_that_this_is_too_good():
    result = result_of(of_losses({label: (*each[:2], None) for label, each in SWEPT.items()}))
    assert result.startswith("Chosen by the test loss itself: a rate=2 of 2 values (0.550), b rate=1 of 2 values (0.1")
    assert "The least of several is too good: data.validation_fraction" in result
    assert "(b rate=1 minus a rate=2 under the same seeds: -0.450" in result


def test_the_chosen_value_of_one_selector_is_beside_the_closest_other():
    result = result_of(of_losses({label: SWEPT[label] for label in ("b rate=1", "b rate=2")}))
    assert "Its test loss beside the closest other value: b rate=2, 0.450 (b rate=1 minus b rate=2 under" in result
    one = of_losses({label: SWEPT[label] for label in ("a rate=1", "a rate=2")})
    assert verdict_of(one[one["seed"] == 0]).beyond_chance is None


def test_where_alpha_outweighs_counts_the_page_says_so(copy):
    for path in copy.glob("fedgs-*/config.toml"):
        path.write_text(path.read_text().replace('alpha = 1.0\nscale = "turns"', 'alpha = 9.0\nscale = "pairs"'))
    (note,) = [note for note in read_report(copy).notes if note.startswith("FedGS")]
    assert "alpha = 9 in scale 'pairs' is worth up to 21 turns, and a client has 1.12 in 3 rounds" in note


def test_comparison_folder_is_reported_under_the_labels_it_was_given(compared):
    report = read_report(compared)
    assert report.title == "compared"
    assert report.summary == (
        "8 clients on digits (two-label, labels_per_client = 2), 3 rounds, 3 clients a round, availability ideal, "
        "seeds 0, 1."
    )
    assert others(report.notes) == ()
    assert [table.key for table in report.tables] == ["results", "paired-differences", "course", "runs"]
    assert re.match(r"Least test loss: (even|.*), \d\.\d{3} \(.* under the same seeds: .*2 seeds, ", report.result)
    words = dict(report.glossary)
    assert words["3DG"].startswith("Data-distribution-dependency graph")  # of a caption
    assert dict(report.facts)["split"].startswith("the same under every seed")
    assert {"sum of weights", "worst client's accuracy", "late deviation", "difference"} <= set(words)
    assert "wins" not in words  # of the other reports
    assert "cores" in dict(report.facts)["machine"]
    assert [row[0] for row in report.tables[0].texts[1:]] == [hostile(compared), "even"]
    assert [row[:3] for row in report.tables[3].texts[1:]] == [
        (label, seed, "finished") for label in (hostile(compared), "even") for seed in "01"
    ]
    assert [picture.key for picture in report.pictures] == ["counts", "curves", "success", "graph"]
    facts = dict(report.facts)
    assert facts["selector even"] == "uniform (aggregation = samples, over = 1.0)"
    assert facts[f"selector {hostile(compared)}"].startswith(
        "fedgs (alpha = 1.0, scale = turns, method = brute-force, ties = id, "
    )
    assert {"numpy", "torch"} <= set(facts)
    assert "seed" not in facts


def test_results_are_the_means_of_the_summaries(compared):
    rows = [json.loads(path.read_text()) for path in sorted(compared.glob("uniform-*/summary.json"))]
    losses = [row["final_loss"] for row in rows]
    table = read_report(compared).tables[0]
    assert [column.heading for column in table.columns][2:4] == ["least in hindsight", "test loss"]
    assert table.rows[1][3] == number(np.mean(losses), "{:.3f}", np.std(losses, ddof=1))


def test_the_caption_says_what_the_chosen_columns_need(compared):
    whole = read_report(compared).tables[0].caption
    assert all(each in whole for each in ("± standard deviation", "Gaps are relative", "in hindsight"))
    few = read_report(compared, columns=["count_variance"]).tables[0]
    assert few.caption == "Means over seeds."
    assert "±" not in " ".join(few.texts[1])
    assert "Gaps are" in read_report(compared, columns=["mean_gap"]).tables[0].caption


def test_differences_are_paired_by_seed_and_sums_of_weights_that_differ_are_said(copy):
    """Worked out run by run; the weights of one selector are then made a tenth."""
    runs = {label: sorted(copy.glob(f"{label}-*-s?")) for label in ("fedgs", "uniform")}
    losses = {label: [json.loads((run / "summary.json").read_text()) for run in each] for label, each in runs.items()}
    first, second = (b["final_loss"] - a["final_loss"] for a, b in zip(*losses.values(), strict=True))
    half = 12.7062 * abs(first - second) / 2  # Student's t of one degree, over the square root of two seeds
    (row,) = read_report(copy).tables[1].rows
    star = " *" if abs(first + second) / 2 > half else ""
    assert row[0].text == f"even - {hostile(copy)}"
    assert row[2].text == f"{(first + second) / 2:+.3f} ± {half:.3f}{star}"
    for run in runs["uniform"]:
        results = json.loads((run / "summary.json").read_text())
        assert results["weight_sum"] == pytest.approx(1.0)
        (run / "summary.json").write_text(json.dumps(results | {"weight_sum": 0.1}))
    (note,) = others(read_report(copy).notes)
    assert re.search(r"do not sum to the same \(.* 1, even 0\.1\)", note)


def test_without_a_manifest_labels_say_what_differs(copy):
    (copy / "comparison.json").unlink()
    assert [row[0] for row in read_report(copy).tables[0].texts[1:]] == ["fedgs", "uniform"]
    for path in copy.glob("uniform-*/config.toml"):
        (other,) = sorted(copy.glob("fedgs-*-s0"))[:1]
        text = re.sub(r"\[selector\]\n(.+\n)+", "", path.read_text())
        selector = re.search(r"\[selector\]\n(.+\n)+", (other / "config.toml").read_text())[0]
        path.write_text(text + "\n" + selector.replace("brute-force", "greedy"))
    names = [row[0] for row in read_report(copy).tables[0].texts[1:]]
    assert names == ["fedgs (method = brute-force)", "fedgs (method = greedy)"]


def test_unfinished_runs_of_a_comparison_are_named_and_left_out(copy):
    (run,) = copy.glob("uniform-*-s1")
    cut(run, 2)
    report = read_report(copy)
    assert report.summary.endswith("seeds 0.")
    assert others(report.notes) == (
        "Not finished: even under seed 1 (2 of 3 rounds).",
        f"Finished, but left out, as not every selector has finished under its seed: {hostile(copy)} under seed 1.",
    )
    assert [row[2] for row in report.tables[-1].texts[1:]] == ["finished"] * 3 + ["2 of 3 rounds"]
    for path in copy.glob("uniform-*"):
        shutil.rmtree(path)
    report = read_report(copy)
    assert report.notes[0] == "Not finished: even under seed 0 (not begun), even under seed 1 (not begun)."
    assert report.notes[-1] == "No seed has finished runs of every selector, so there is nothing to compare yet."
    assert [table.key for table in report.tables] == ["runs"]
    assert report.pictures == ()


# -- runs ----------------------------------------------------------------------------------------------------------


def test_run_folder_has_its_summary_clients_and_rounds(compared):
    (run,) = compared.glob("fedgs-*-s0")
    report = read_report(run)
    assert report.title == "compared: fedgs"
    assert others(report.notes) == ()
    tables = {table.key: table for table in report.tables}
    results = json.loads((run / "summary.json").read_text())
    assert {row[0].text: row[1].value for row in tables["results"].rows} == {
        key.replace("_", " "): value for key, value in results.items()
    }
    assert len(tables["clients"].rows) == 8
    assert len(tables["rounds"].rows) == 3
    assert "gap" in [column.heading for column in tables["rounds"].columns]


def test_unfinished_run_is_reported_as_such(copy):
    (run,) = copy.glob("fedgs-*-s0")
    cut(run, 2)
    report = read_report(run)
    assert others(report.notes) == ("The run is not finished: 2 of 3 rounds are played. All numbers are so far.",)
    values = {row[0].text: row[1].text for row in report.tables[0].rows}
    assert values["rounds"] == "2"
    assert values["importance distance"] == "-"  # not known before the end
    assert len(report.tables[1].rows) == 8
    (run / "rounds.jsonl").unlink()
    report = read_report(run)
    assert report.notes == ("The run is not finished: 0 of 3 rounds are played. All numbers are so far.",)
    assert report.tables == report.pictures == ()


def test_a_run_without_accuracy_and_with_objectives_near_zero(copy):
    """As of a regression: a loss panel alone; gaps in units of the run, and the unit is stated."""
    (run,) = copy.glob("fedgs-*-s0")
    records = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
    for record, objective in zip(records, (1e-15, -2e-15, 3e-15), strict=True):
        record["accuracy"] = None
        record["client_scores"] = {"loss": [float(k) for k in range(1, 9)], "accuracy": [None] * 8}
        record["solution"] |= {"objective": objective, "bound": 0.0, "gap": 1.0}
    (run / "rounds.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    report = read_report(run)
    curves = next(picture for picture in report.pictures if picture.key == "curves")
    assert curves.caption == "Test loss."
    assert [axis.get_ylabel() for axis in curves.figure.axes] == ["test loss"]
    clients = next(picture for picture in report.pictures if picture.key == "clients")
    assert clients.caption.startswith("Loss at the clients over the rounds")
    assert clients.figure.axes[0].get_ylabel() == "loss at the clients"
    rounds = next(table for table in report.tables if table.key == "rounds")
    place = [column.heading for column in rounds.columns].index("gap")
    assert [row[place].value for row in rounds.rows] == [1e-15, 2e-15, 3e-15]
    assert "over the mean |objective| of the run" in rounds.caption


def test_selectors_and_data_that_are_not_registered_here_are_reported_all_the_same(copy):
    (run,) = copy.glob("uniform-*-s0")
    text = (run / "config.toml").read_text()
    (run / "config.toml").write_text(text.replace('"uniform"', '"mine"').replace('"digits"', '"my-data"'))
    report = read_report(run)
    assert report.title == "compared: mine"
    assert "my-data" in report.notes[0]
    assert "is not drawn" in report.notes[0]


def test_a_report_downloads_nothing(copy, tmp_path):
    """A run may be a stranger's, with a folder and a wish for data of theirs."""
    (run,) = copy.glob("uniform-*-s0")
    root = tmp_path / "theirs"
    theirs = f'[data]\nname = "mnist"\nroot = "{root}"\ndownload = true\n'
    text = re.sub(r"(?m)^\[data\]\n(?:(?!\[).*\n?)*", theirs + "\n", (run / "config.toml").read_text())
    assert tomllib.loads(text)["data"]["download"]
    (run / "config.toml").write_text(text)
    report = read_report(run)
    assert "mnist is not there" in report.notes[0]
    assert not root.exists()


# -- solver methods ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def methods_folder(tmp_path_factory):
    """Two methods on two families, with a time limit and without one."""
    rng = np.random.default_rng(0)
    points = rng.random((9, 2))
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    problems = {
        "of 3": DispersionProblem(distances=distances, costs=rng.random(9), size=3),
        "of 4": DispersionProblem(distances=distances, costs=rng.random(9), size=4),
        "groups": AllocationProblem(sizes=np.array([5, 6, 7]), deviations=np.array([1.0, 2.0, 3.0]), total=6),
    }
    methods = {"<b>all</b> $\\x$": "brute-force", "quick": "greedy"}
    folder = tmp_path_factory.mktemp("bench") / "folder"
    run_benchmark(methods, problems, seeds=[0, 1], time_limits=[5.0, None], out=folder)
    return folder


def by_heading(table):
    head, *rows = table.texts
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_comparison_of_methods_is_summed_up_by_method_and_instance(methods_folder):
    report = read_report(methods_folder)
    assert report.summary == "2 methods on 3 instances (dispersion, allocation), 2 seeds, time limit 5 s, none."
    assert report.notes == ()
    methods, instances, solves = report.tables
    rows = by_heading(methods)
    assert {(row["method"], row["family"], row["time limit (s)"]) for row in rows} == {
        (method, family, limit)
        for method in ("<b>all</b> $\\x$", "quick")
        for family in ("dispersion", "allocation")
        for limit in ("5", "-")
    }
    for row in rows:
        assert row["solves"] == row["solved"] == ("4" if row["family"] == "dispersion" else "2")
        assert row["failures"] == "0"
    exact = [row for row in rows if row["method"] != "quick"]
    assert len(exact) == 4
    for row in exact:
        assert row["solves"] == row["proved"] == row["wins"]
        assert row["mean gap to best"] == "0 %"
    assert len(instances.rows) == 6
    assert all(row["<b>all</b> $\\x$"].endswith(" *") for row in by_heading(instances))
    assert len(solves.rows) == 24
    assert report.result.startswith("Nearest to the best known values on average: <b>all</b>")
    assert report.result.endswith("; most proofs: <b>all</b> $\\x$ (12 of 12).")
    last = report.pictures[-1].figure.axes[0].lines[0].get_xdata()
    longest = Benchmark.load(methods_folder).table.query("method != 'quick'")["seconds"].max()
    assert last[-1] >= longest * (1 - 1e-9)  # to the end of the solve, not to its last improvement
    keys = ["performance-profile", "primal-profile", "gap-over-time", "wins", "cost-against-size", "trajectory"]
    assert [picture.key for picture in report.pictures] == keys
    assert all(picture.png.startswith(b"\x89PNG") for picture in report.pictures)


def test_the_profile_is_over_what_tells_methods_apart():
    """Over times to a proof where two methods prove, else over gaps, else over gaps to the best."""
    nan = math.nan
    table = pd.DataFrame(
        {
            "method": ["a", "a", "b"],
            "verdict": "ok",
            "relaxed": False,
            "time_to_proof": [1.0, nan, 2.0],
            "gap": [0.0, 0.1, 0.0],
            "gap_to_best": [0.0, 0.0, 0.0],
        }
    )
    assert _profiled(table) == ["time_to_proof", "gap_to_best"]
    assert _profiled(table.assign(time_to_proof=[1.0, 2.0, nan])) == ["gap", "gap_to_best"]
    assert _profiled(table.assign(time_to_proof=[1.0, 2.0, nan], gap=[0.0, 0.1, math.inf])) == ["gap_to_best"]
    assert _profiled(table.assign(verdict=["ok", "ok", "crashed"])) == []  # a method alone
    assert _profiled(table.assign(verdict="crashed")) == []


def test_the_page_of_a_method_that_alone_proves_has_a_profile_over_gaps(tmp_path):
    problem = DispersionProblem(distances=1.0 - np.eye(6), costs=np.arange(6.0), size=3)
    run_benchmark(["brute-force", "greedy"], {"one": problem}, seeds=[0], time_limits=[5.0], out=tmp_path / "folder")
    profile = read_report(tmp_path / "folder").pictures[0]
    assert profile.key == "performance-profile"
    assert "over the primal gap, to the best known value" in profile.caption
    assert profile.figure.axes[0].get_xlabel().startswith("|objective − best known|")
    assert len(profile.figure.axes[0].lines) == 2


def test_a_method_alone_has_no_pictures_that_compare(tmp_path):
    problem = DispersionProblem(distances=1.0 - np.eye(6), costs=np.arange(6.0), size=3)
    run_benchmark(["brute-force"], {"one": problem}, seeds=[0], time_limits=[5.0], out=tmp_path / "folder")
    keys = [picture.key for picture in read_report(tmp_path / "folder").pictures]
    assert keys == ["gap-over-time", "cost-against-size", "trajectory"]


def test_wins_and_gaps_are_those_of_the_table(methods_folder):
    """Worked out row by row, in plain Python."""
    rows = [row for row in Benchmark.load(methods_folder).table.to_dict("records") if row["family"] == "dispersion"]
    limited = [row for row in rows if row["time_limit"] == 5.0]
    best = {
        key: max(r["objective"] for r in limited if (r["instance"], r["seed"]) == key)
        for key in {(r["instance"], r["seed"]) for r in limited}
    }
    quick = [row for row in limited if row["method"] == "quick"]
    won = sum(abs(row["objective"] - best[row["instance"], row["seed"]]) <= 1e-9 for row in quick)
    shown = next(
        row
        for row in by_heading(read_report(methods_folder).tables[0])
        if (row["method"], row["family"], row["time limit (s)"]) == ("quick", "dispersion", "5")
    )
    assert shown["wins"] == str(won)
    assert shown["mean gap to best"] == percent(np.mean([row["gap_to_best"] for row in quick])).text


def test_failures_are_named_and_do_not_win(methods_folder, tmp_path):
    folder = shutil.copytree(methods_folder, tmp_path / "failed")
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    for row in rows:
        if row["method"] == "quick":
            row |= {"verdict": "invalid", "message": "claims a|b"}
    kept = [row for row in rows if row["method"] == "quick"] + [row for row in rows if row["method"] != "quick"][1:]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    report = read_report(folder)
    assert report.notes == (
        "The benchmark is not finished: 23 of 24 solves are done.",
        "12 of 23 solves have no sound answer (12 invalid); they are named below.",
    )
    tables = {table.key: by_heading(table) for table in report.tables}
    quick = [row for row in tables["methods"] if row["method"] == "quick"]
    assert len(quick) == 4  # two families, two limits
    for row in quick:
        assert (row["solved"], row["proved"], row["wins"], row["mean gap to best"]) == ("0", "0", "0", "-")
        assert row["failures"] == row["solves"]
    assert [(row["method"], row["verdict"], row["solves"], row["message"]) for row in tables["failures"]] == [
        ("quick", "invalid", "12", "claims a|b")
    ]
    assert {row["quick"] for row in tables["instances"]} == {"invalid"}


def test_a_relaxation_is_shown_by_its_bound(tmp_path):
    problem = AllocationProblem(sizes=np.array([5, 6, 7]), deviations=np.array([1.0, 2.0, 3.0]), total=6)
    done = run_benchmark(["greedy", "kkt"], {"groups": problem}, out=tmp_path / "bench")
    bound = done.table.set_index("method")["bound"]["kkt"]
    report = read_report(tmp_path / "bench")
    assert by_heading(report.tables[1])[0]["kkt"] == f"≥ {bound:.8g}"
    row = by_heading(report.tables[0])[1]
    assert (row["method"], row["solved"], row["wins"], row["failures"]) == ("kkt", "0", "0", "0")
    assert row["mean gap of bound"] != "-"


def test_a_comparison_without_rows_is_a_sentence(methods_folder, tmp_path):
    folder = shutil.copytree(methods_folder, tmp_path / "empty")
    (folder / "rows.jsonl").write_text("")
    with pytest.raises(RunError, match="has no rows yet"):
        read_report(folder)


# -- the command line ----------------------------------------------------------------------------------------------


def fedselect(capsys, monkeypatch, *arguments):
    """Run the command line in this process; its exit code, what it printed and what it complained about."""
    monkeypatch.setattr(sys, "argv", ["fedselect", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    printed = capsys.readouterr()
    return end.value.code or 0, printed.out, printed.err


def test_report_command_writes_the_page_into_the_folder(copy, capsys, monkeypatch):
    code, out, err = fedselect(capsys, monkeypatch, "report", copy)
    assert (code, err) == (0, "")
    assert "".join(out.split()) == f"report:{copy / 'report' / 'report.html'}"
    assert (copy / "report" / "report.html").stat().st_size < 2_000_000
    assert [path.name for path in (copy / "report").iterdir()] == ["report.html"]
    assert others(read_report(copy).notes) == ()  # the report is not taken for a run


@pytest.mark.thorough
def test_report_command_as_json_names_every_file(compared, tmp_path, capsys, monkeypatch):
    arguments = ("report", compared, "--as", "html, md,tex,md", "--out", tmp_path, "--format", "json")
    code, out, _ = fedselect(capsys, monkeypatch, *arguments)
    written = [path.removeprefix(f"{tmp_path}/") for path in json.loads(out)["written"]]
    assert code == 0
    assert written[:3] == ["report.html", "report.md", "report.tex"]
    assert {path.name for path in tmp_path.iterdir()} == set(written)


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (None, "there is no folder"),
        ({}, "is neither a run folder"),
        ({"comparison.json": "{"}, "cannot read"),
        ({"comparison.json": "[]"}, "does not say its format"),
        (
            {"comparison.json": '{"format": "other/1"}'},
            "is of format 'other/1'; this version reads 'selectors-comparison/1'",
        ),
        ({"comparison.json": '{"format": "selectors-comparison/1"}'}, "does not give a run for every label and seed"),
        ({"config.toml": "a = [", "origin.json": "{}"}, "cannot read the run folder"),
        ({"config.toml": "", "origin.json": "{}"}, "config.toml has no [experiment]"),
    ],
)
def test_other_folders_are_one_sentence_and_exit_2(files, sentence, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "folder"
    if files is not None:
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
    code, out, err = fedselect(capsys, monkeypatch, "report", folder)
    assert (code, out) == (2, "")
    assert err.startswith("fedselect: ")
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert not (folder / "report").exists()


def test_report_command_refuses_other_kinds(compared, tmp_path, capsys, monkeypatch):
    code, _, err = fedselect(capsys, monkeypatch, "report", compared, "--as", "html,pdf", "--out", tmp_path / "out")
    assert (code, err) == (2, "fedselect: --as takes html, md, tex, csv, parquet, with commas; got 'pdf'\n")
    assert not (tmp_path / "out").exists()


def test_latex_compiles(compared, tmp_path):
    if shutil.which("pdflatex") is None or not _has("booktabs.sty"):
        pytest.skip("there is no pdflatex with booktabs")
    save(read_report(compared), tmp_path, ["tex"])
    document = (
        r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage{booktabs,graphicx}"
        r"\begin{document}\input{report.tex}\end{document}"
    )
    (tmp_path / "paper.tex").write_text(document)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "paper.pdf").exists()


def _has(file):
    return bool(subprocess.run(["kpsewhich", file], capture_output=True, text=True).stdout.strip())
