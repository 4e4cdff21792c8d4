"""An installation without Flower: everything else works, and whoever needs it reads what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

from solvers.environment import how_to_install
from tests.waiting import HANG

REFUSE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] == 'flwr':
            raise ImportError('No module named flwr')
sys.meta_path.insert(0, Refuse())
sys.argv = ['fedselect', *{arguments!r}]
from fedselect.cli import main
main()
"""


def test_the_command_says_what_to_install(tmp_path):
    (tmp_path / "small.toml").write_text("")
    code = REFUSE.format(arguments=["export-flower", str(tmp_path / "small.toml"), str(tmp_path / "app")])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 2
    assert done.stderr == (
        "fedselect: federations need Flower and PyTorch; one of them is missing or too old (No module named flwr): "
        f"{how_to_install('fl,flower')}\n"
    )
    assert not (tmp_path / "app").exists()


@pytest.mark.thorough
def test_other_commands_do_not_need_it():
    code = REFUSE.format(arguments=["run", "--help"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr
