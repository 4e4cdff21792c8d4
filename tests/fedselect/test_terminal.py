"""What a command says of its progress, on a terminal and in a file."""

from __future__ import annotations

import pytest

from fedselect import terminal
from fedselect.terminal import Pace, print_table, progress_bar


def test_a_pace_does_not_count_what_was_done_before():
    pace = Pace()
    pace.count(40, 100.0)
    assert (str(pace), pace.left(60)) == ("", None)
    pace.count(40, 101.0)
    assert str(pace) == ""
    pace.count(60, 110.0)
    assert (str(pace), pace.left(40)) == ("2/s", 20.0)
    slow = Pace()
    slow.count(0, 0.0)
    slow.count(2, 25.0)
    assert (str(slow), slow.left(1)) == ("12.5 s each", 12.5)


def test_lines_in_a_file_say_rounds_a_second_and_what_is_left(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    with progress_bar("rounds", 500) as update:
        for done, at in ((101, 1.0), (200, 50.0), (221, 61.0), (300, 70.0)):
            now[0] = at
            update(done, 500)
    said = capsys.readouterr().err
    assert said == "fedselect: rounds: 221 of 500 after 61 s, 2/s, 140 s left\n"


def test_a_bar_on_a_terminal_says_its_pace(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with progress_bar("rounds", 4) as update:
        for done in range(1, 5):
            update(done, 4)
    said = capsys.readouterr().err
    assert "rounds" in said
    assert "4/4" in said
    assert "/s" in said


@pytest.mark.parametrize("total", [0, 1])
def test_what_is_done_at_once_has_no_pace(total):
    pace = Pace()
    pace.count(total, 5.0)
    assert str(pace) == ""


@pytest.mark.parametrize("columns", [1, 12, 16, 21, 30, 44, 60, 200])
def test_no_table_is_too_narrow_for_its_digits(monkeypatch, capsys, columns):
    """Each cell's characters come in order, line by line, whatever the width."""
    monkeypatch.setenv("COLUMNS", str(columns))
    head = ("instance", "objective", "bound", "seconds", "gap")
    row = ("fedgs-digits-n30-r0", "123.456789", "12345.678901", "0.12345678", "1e-05")
    print_table(head, [row])
    lines = [line.split("│")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert tuple("".join(cell.strip() for cell in cells) for cells in zip(*lines, strict=True)) == row
