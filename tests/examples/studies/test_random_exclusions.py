"""CA-Fed's control: as many left out, and any client as likely as another."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import random_exclusions
from fedselect.experiments import Choice, Experiment
from fedselect.experiments.reading import read_records
from fedselect.experiments.running import run_all


@pytest.mark.parametrize("step", ["published", "full"])
def test_as_many_are_left_out_as_ca_fed_leaves_out(tmp_path, step, monkeypatch):
    decided = []
    select = random_exclusions.ca_fed

    def watched(*given, **options):
        inner = select(*given, **options)
        own = inner.select

        def asked(round):
            found = own(round)
            weights = inner.importance / inner.chains.availability
            decided.append((round.available.copy(), found.clients, found.weights, weights))
            return found

        inner.select = asked
        return inner

    monkeypatch.setattr(random_exclusions, "ca_fed", watched)
    run = Experiment(
        rounds=30,
        data=Choice("digits", {"n_clients": 20, "partition": "dirichlet-unequal"}),
        availability=Choice("ca-fed"),
        selector=Choice("ca-fed-random", {"step": step, "bias_weight": 1.0}),
    )
    records = read_records(run_all([run], tmp_path, 1, plots=False)[0])
    assert len(records) == len(decided) == 30
    left_out, others = 0, 0
    for record, (available, kept, theirs, weights) in zip(records, decided, strict=True):
        clients = np.array(record["selected"], dtype=int)
        assert len(clients) == len(kept)
        assert available[clients].all()
        left_out += available.sum() - len(kept)
        others += set(clients.tolist()) != set(kept.tolist())
        mine = np.asarray(record["weights"], dtype=float)
        if step == "full":
            assert mine.sum() == pytest.approx(weights[available].sum())
            assert theirs.sum() == pytest.approx(weights[available].sum())
        else:
            np.testing.assert_allclose(mine, weights[clients])
    assert left_out > 0
    assert others > 0
