"""One PyTorch thread, as in a run: on a busy machine, threads that wait for each other cost more than they bring."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture
def call(capsys, monkeypatch):
    """The command line in this process: ``call("solve", name)`` gives exit code, stdout and stderr."""
    from fedselect.cli import main

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["fedselect", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code or 0, *capsys.readouterr()

    return run
