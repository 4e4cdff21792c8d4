"""One PyTorch thread, as in a run: on a busy machine, threads that wait for each other cost more than they bring."""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext

import pytest


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


#: Rooms whose tests read what a picture is made of at most, not how it looks.
_ROOMS_OF_SMALL_PICTURES = {"cli", "data", "flower", "integrations", "studies", "experiments"}


@contextmanager
def small_pictures():
    """Draw pictures small and without arranging them: at full size they take nine tenths of a run of some rounds."""
    from matplotlib.figure import Figure

    savefig = Figure.savefig

    def small(figure, *arguments, **options):
        figure.set_layout_engine("none")
        savefig(figure, *arguments, **options | {"dpi": 20})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", small)
        yield


@pytest.fixture(scope="module", autouse=True)
def _pictures(request):
    """Draw small where the looks are not the point; tests of the figures and of the reports draw as people get it."""
    is_small = request.path.parent.name in _ROOMS_OF_SMALL_PICTURES and request.path.stem != "test_figures"
    with small_pictures() if is_small else nullcontext():
        yield


#: A label that would do harm in a page, a Markdown table, LaTeX or a formula if it were not escaped.
HOSTILE = "<script>window.harm = 1</script> a|b & 50 % of $x$_\\"


@pytest.fixture(scope="session")
def compared(tmp_path_factory):
    """A comparison of two selectors under two seeds, in its folder."""
    pytest.importorskip("torch")
    from fedselect.experiments import Choice, Experiment, compare

    experiment = Experiment(
        name="compared",
        rounds=3,
        clients_per_round=3,
        data=Choice("digits", {"n_clients": 8}),
        dropout=Choice("bernoulli", {"rate": 0.3}),
    )
    variants = {HOSTILE: Choice("fedgs", {"method": "brute-force"}), "even": Choice("uniform")}
    out = tmp_path_factory.mktemp("runs")
    with small_pictures():
        compare(experiment, variants, [0, 1], out)
    return out / "compared"


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
