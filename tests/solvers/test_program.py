"""Methods that are programs: what they print is a decision, and what goes wrong is a sentence."""

import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from solvers import InvalidAnswer, InvalidOption, MissingBackend, method, solve
from solvers.dispersion import DispersionProblem
from solvers.registry import restore, snapshot

CLIENTS = [3, 17, 20, 21, 40, 41]


@pytest.fixture(autouse=True)
def program():
    """A method that runs what its option says, registered for one test."""
    known = snapshot()

    @method(DispersionProblem, "program", kind="heuristic")
    def program(problem, run, *, command: str | list[str] | Path, first: int = 0):
        """Run a program."""
        return run.execute(command, first=first)

    yield
    restore(known)


@pytest.fixture
def problem():
    far = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    return DispersionProblem(far, size=2, clients=CLIENTS)


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_rows_that_are_printed_are_the_decision(problem, tmp_path):
    """Rows of the file, not ids: row 1 is client 17."""
    assert solve(problem, "program", command=python("print(1, 5)")).selected.tolist() == [17, 41]
    assert solve(problem, "program", command=python("print('2,6')"), first=1).selected.tolist() == [17, 41]
    assert solve(problem, "program", command=f"'{sys.executable}' -c print(1,5)").selected.tolist() == [17, 41]
    script = tmp_path / "my solver"
    script.write_text(f"#!{sys.executable}\nprint(0)\nprint(1)\n")
    script.chmod(0o755)
    assert solve(problem, "program", command=script).selected.tolist() == [3, 17]


@pytest.mark.parametrize(
    ("command", "error", "sentence"),
    [
        ("no-such-solver", MissingBackend, "there is no program 'no-such-solver': give its path"),
        (os.devnull, MissingBackend, "cannot be run: Permission denied"),
        ("", InvalidOption, "execute needs the name of a program"),
        ("solver 'my file", InvalidOption, "execute cannot split the command .*: No closing quotation"),
        (python("print('1' * 5000)"), InvalidAnswer, "printed '1111"),
        (python("raise ValueError('no licence')"), InvalidAnswer, "ended with exit code 1: ValueError: no licence"),
        (python("import os; os.abort()"), InvalidAnswer, "ended with signal 6: it printed nothing on stderr"),
        (python(""), InvalidAnswer, "whole numbers from 0 to 5, and .* printed nothing"),
        (python("print('best', 12)"), InvalidAnswer, "printed 'best'"),
        (python("print(1, 17)"), InvalidAnswer, "printed '17'"),
        (python("print(1, 1)"), InvalidAnswer, "printed 1 twice"),
        (python("print(-1, 1)"), InvalidAnswer, "printed '-1'"),
        (python("print(1, 2, 3)"), InvalidAnswer, "infeasible decision"),
    ],
)
def test_what_goes_wrong_is_a_sentence(problem, command, error, sentence):
    with pytest.raises(error, match=sentence):
        solve(problem, "program", command=command)


def test_a_program_and_what_it_started_end_with_the_time_limit(problem, tmp_path):
    """It starts a second one that writes a file later, if it is let live."""
    late = tmp_path / "late"
    second = f"import time; time.sleep(1); open({str(late)!r}, 'w')"
    first = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {second!r}])"
    solution = solve(problem, "program", command=python(first), time_limit=0.3, start=[3, 17])
    assert solution.stopped == "time-limit"
    assert solution.selected.tolist() == [3, 17]
    time.sleep(1.2)
    assert not late.exists()
