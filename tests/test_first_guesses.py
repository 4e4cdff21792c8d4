"""First guesses of new users: for every word of `solvers.hints.WORDS` a sentence says what was meant."""

# ruff: noqa: F401  (the names that guesses use are there to be looked up)

from __future__ import annotations

import numpy as np
import pytest

from fedselect.data.partitions import check_data
from fedselect.experiments import Experiment
from fedselect.selectors import SELECTORS
from fedselect.training.settings import TrainingSettings
from solvers import solve
from solvers.allocation import AllocationProblem
from solvers.capping import CappingProblem
from solvers.dispersion import DispersionProblem
from solvers.hints import WORDS

#: What people write, `h` being distances and `p` a problem; the word in it, and what they are told.
GUESSES = [
    ("m", "DispersionProblem(h, m=3)", "size"),
    ("k", "AllocationProblem(c, c, k=20)", "total"),
    ("budget", "solve(p, budget=5)", "time_limit"),
    ("h", "DispersionProblem(H=h, size=3)", "distances"),
    ("matrix", "DispersionProblem(matrix=h, size=3)", "distances"),
    ("alpha", "check_data('digits', {'partition': 'dirichlet', 'alpha': 0.5})", "concentration"),
    ("sigma", "CappingProblem(weights=c, size=3, sigma=0.1)", "floor"),
    ("cityblock", "DispersionProblem.from_points(h, size=3, metric='cityblock')", "manhattan"),
    ("timeout", "solve(p, timeout=5)", "time_limit"),
    ("maxtime", "solve(p, max_time=5)", "time_limit"),
    ("tol", "solve(p, tol=0.01)", "gap"),
    ("certify", "solve(p, certify='sdp')", "bound_by"),
    ("verbose", "solve(p, verbose=True)", "log"),
    ("rng", "solve(p, rng=0)", "seed"),
    ("randomstate", "solve(p, random_state=0)", "seed"),
    ("njobs", "solve(p, n_jobs=2)", "threads"),
    ("workers", "solve(p, workers=2)", "threads"),
    ("x0", "solve(p, x0=[0, 1, 2])", "start"),
    ("initialsolution", "solve(p, initial_solution=[0, 1, 2])", "start"),
    ("callback", "solve(p, callback=print)", "watch"),
    ("solver", "solve(p, solver='tabu')", "method"),
    ("bnb", "solve(p, 'bnb')", "branch-and-bound"),
    ("exact", "solve(p, 'exact')", "auto"),
    ("highs", "solve(p, 'highs')", "milp"),
    ("ortools", "solve(p, 'or-tools')", "cp-sat"),
    ("value", "solve(p).value", "objective"),
    ("fun", "solve(p).fun", "objective"),
    ("ids", "solve(p).ids", "selected"),
    ("runtime", "solve(p).runtime", "seconds"),
    ("lr", "TrainingSettings(lr=0.1)", "learning_rate"),
    ("epochs", "TrainingSettings(epochs=2)", "local_epochs"),
    ("nrounds", "Experiment(n_rounds=3)", "rounds"),
    ("clients", "Experiment(clients=3)", "clients_per_round"),
    ("mu", "TrainingSettings(mu=0.1)", "proximal"),
    ("criterion", "TrainingSettings(criterion='auto')", "loss"),
    ("maxgradnorm", "TrainingSettings(max_grad_norm=1.0)", "clip_gradient"),
    ("earlystopping", "Experiment(early_stopping=3)", "patience"),
    ("random", "SELECTORS['random']", "uniform"),
    ("fedavg", "SELECTORS['fedavg']", "uniform"),
    ("poc", "SELECTORS['poc']", "power-of-choice"),
]


h, c = 1 - np.eye(8), np.arange(8.0)
p = DispersionProblem(h, size=3)


@pytest.mark.parametrize(("word", "guess", "meant"), GUESSES, ids=[word for word, *_ in GUESSES])
def test_a_word_of_others_is_answered(word, guess, meant):
    with pytest.raises(Exception, match=f"did you mean {meant!r}"):
        eval(guess, globals())
    assert meant in WORDS[word]


def test_every_word_is_guessed():
    assert {word for word, *_ in GUESSES} == set(WORDS)
    assert len(WORDS) <= 40
