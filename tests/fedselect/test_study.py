"""What the scripts of the papers share."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from fedselect.errors import ConfigError
from fedselect.experiments import beside_paper, show, study_arguments


def measured(**cells):
    """One row a seed: mode "LN", a method, a loss."""
    return pd.DataFrame(
        [{"mode": "LN", "method": method, "loss": loss} for method, losses in cells.items() for loss in losses]
    )


def compared(paper, why=None, **cells):
    published = {("LN", method): value for method, value in paper.items()}
    table = beside_paper(measured(**cells), published, ("mode", "method"), "loss", why)
    return table.set_index("method")


def test_arguments_have_a_folder_for_each_mode_and_data_set():
    plain = study_arguments("About.", "study", ("digits", "cifar10"), [])
    assert (plain.paper, plain.dataset, plain.out) == (False, "digits", Path("studies/study/quick-digits"))
    chosen = study_arguments(
        "About.", "study", ("digits", "cifar10"), ["--paper", "--dataset", "cifar10", "--out", "x", "--jobs", "4"]
    )
    assert (chosen.paper, chosen.out, chosen.jobs) == (True, Path("x/paper-cifar10"), 4)


@pytest.mark.parametrize("bad", [["--dataset", "mnist"], ["--quick", "--paper"], ["--jobs", "two"]])
def test_arguments_that_are_not_accepted_end_the_script(bad, capsys):
    with pytest.raises(SystemExit):
        study_arguments("About.", "study", argv=bad)
    assert "error:" in capsys.readouterr().err


def test_verdicts():
    """The half-width is 4.303 s/√3: 0.0248 for s = 0.01, 0.248 for s = 0.1."""
    close, wide = (0.99, 1.00, 1.01), (0.9, 1.0, 1.1)
    paper = {"inside": 1.02, "below": 1.03, "above": 0.97, "wide": 1.2}
    table = compared(paper, inside=close, below=close, above=close, wide=wide, ours=close)
    expected = {"inside": "agrees", "below": "lower", "above": "higher", "wide": "inconclusive", "ours": ""}
    assert table.verdict.to_dict() == expected
    assert table.why.to_dict() == {method: "unexplained" * (method in ("below", "above")) for method in expected}
    assert table.ours.tolist() == pytest.approx([1.0] * 5)
    assert table.deviation.tolist() == pytest.approx([0.01, 0.01, 0.01, 0.1, 0.01])
    assert table.seeds.tolist() == [3] * 5
    assert math.isnan(table.paper["ours"])


def test_one_seed_has_no_interval():
    table = compared({"a": 1.0, "b": 1.0}, a=[1.0], b=[1.001])
    assert table.verdict.to_dict() == {"a": "agrees", "b": "higher"}


def test_a_reason_explains_all_cells_that_begin_with_its_key():
    paper = {"a": 1.0, "b": 1.0}
    both = compared(paper, {("LN",): "other data"}, a=[2.0], b=[3.0])
    assert both.why.tolist() == ["other data"] * 2
    first = compared(paper, {("LN", "b"): "other method", (): "anything"}, a=[2.0], b=[3.0])
    assert first.why.tolist() == ["anything", "other method"]


def test_a_number_of_the_paper_that_nothing_stands_beside_is_an_error():
    with pytest.raises(ConfigError, match=r"the paper has a number for \('LN', 'c'\), but nothing was measured there"):
        compared({"c": 1.0}, a=[1.0])


def test_show_cuts_nothing_off_and_prints_each_reason_once(capsys):
    reason = "[a reason] " + "that is long " * 20
    rows = [{"method": "m" * 60, "loss": 0.12345, "none": None, "why": why} for why in (reason, reason, "", "short")]
    show(pd.DataFrame(rows), "Title", digits=2)
    printed = capsys.readouterr().out
    assert "m" * 60 in printed
    assert "0.12 " in printed
    assert printed.count("that is long " * 20) == 1
    assert printed.count("[1]") == 3  # two rows and the note
    assert "[2] short" in printed
