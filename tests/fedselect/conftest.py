"""One PyTorch thread, as in a run: on a busy machine, threads that wait for each other cost more than they bring."""

from __future__ import annotations

import functools
import sys
from contextlib import contextmanager, nullcontext

import pytest


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


#: Rooms whose tests read what a picture is made of at most, not how it looks; and those where it only has to be there.
_ROOMS_OF_SMALL_PICTURES = {"flower"}
_ROOMS_OF_BLANK_PICTURES = {"cli", "data", "integrations", "experiments"}


@functools.cache
def _savefig():
    from matplotlib.figure import Figure

    return Figure.savefig


@contextmanager
def small_pictures(blank=False):
    """Draw pictures small and without arranging them, or not at all: they take nine tenths of a run of some rounds."""
    from matplotlib.figure import Figure
    from PIL import Image

    really = _savefig()

    def small(figure, target, *arguments, **options):
        if blank and options.get("format") == "png":
            Image.new("RGB", (8, 8), "white").save(target, "PNG")
            return
        figure.set_layout_engine("none")
        really(figure, target, *arguments, **options | {"dpi": 20})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", small)
        yield


@pytest.fixture(scope="module", autouse=True)
def _pictures(request):
    """Draw small, or nothing, where looks are not the point; tests of figures and reports draw as people get it.

    The thorough part draws everywhere.
    """
    room, is_thorough = request.path.parent.name, request.config.option.markexpr == "thorough"
    is_blank = room in _ROOMS_OF_BLANK_PICTURES and not is_thorough
    is_small = room in _ROOMS_OF_SMALL_PICTURES | _ROOMS_OF_BLANK_PICTURES and request.path.stem != "test_figures"
    with small_pictures(is_blank) if is_small else nullcontext():
        yield


@pytest.fixture
def drawn():
    """Let a test draw its pictures, small, where others do not."""
    with small_pictures():
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
