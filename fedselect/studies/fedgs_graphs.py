"""FedGS's Table 3: how much of the oracle's 3DG is found in what clients send back after one round of training."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from fedselect.availability import AVAILABILITY
from fedselect.data import Federation, Samples, load_data
from fedselect.embeddings import client_embeddings
from fedselect.experiments import Choice
from fedselect.progress import progress_bar
from fedselect.rounds.protocol import RoundFeedback
from fedselect.selectors import AllAvailable
from fedselect.studies.parts import kept
from fedselect.training.settings import TrainingSettings
from graphs import dependency_graph, epsilon_sweep, similarity

__all__ = ["Everybody", "as_images", "recovered", "recovery"]


class Everybody(AllAvailable):
    """Everybody trains; the server keeps what they send."""

    def update(self, feedback: RoundFeedback) -> None:
        """Keep the updates, one client a row."""
        self.updates = np.stack([feedback.updates[client] for client in feedback.selection.clients.tolist()])


def recovery(
    graphs: Mapping[str, Choice], setting: TrainingSettings, seeds: int, rates: Sequence[float], out: Path
) -> pd.DataFrame:
    """Table 3: one row a score, over splits, seeds, step sizes and methods; a file each for what is there already."""
    model = setting.model if setting.model.startswith("cnn") else "cnn-fashion"
    cells = list(itertools.product(graphs.items(), range(seeds), rates))
    rows = []
    with progress_bar("Table 3, graphs", len(cells)) as advance:
        for done, ((split, data), seed, rate) in enumerate(cells):
            advance(done, len(cells))
            training = TrainingSettings(model, learning_rate=rate, batch_size=setting.batch_size)
            path = out / "graphs" / f"{split}-{rate:g}-s{seed}.npz"
            for method, scores in kept(path, recovered, data, training, seed).items():
                rows += [(split, f"{rate:g}", method, score, seed, value) for score, value in scores.items()]
    return pd.DataFrame(rows, columns=["split", "rate", "method", "score", "seed", "value"])


def recovered(data: Choice, training: TrainingSettings, seed: int) -> dict[str, dict[str, float]]:
    """Train everybody for a round, and score the 3DG of what they send back at the best of the paper's thresholds."""
    import torch
    from torch.nn.utils import vector_to_parameters

    from fedselect.training.fedavg import FedAvg
    from fedselect.training.models import MODELS

    torch.set_num_threads(1)
    federation, selector = as_images(load_data(data.name, **{**data.options, "seed": seed})), Everybody()
    loop = FedAvg(federation, selector, AVAILABILITY.build("ideal", federation, seed), settings=training, seed=seed)
    start = loop.weights
    loop.step(evaluate=False)

    def models() -> Iterator[torch.nn.Module]:
        network = MODELS.build(training.model, federation)
        for update in selector.updates:
            vector_to_parameters(torch.from_numpy(start + update), network.parameters())
            yield network

    # The noise of Eq. 12 has the moments of inputs that the server has; nothing is evaluated on these here.
    noise = client_embeddings(models(), federation.test.features, np.random.default_rng(seed))
    oracle = dependency_graph(similarity(federation.label_distributions, "dot"), "paper")
    found = {"func-sim": similarity(noise, "functional"), "cos-sim": similarity(selector.updates, "update")}
    best = {method: epsilon_sweep(matrix, oracle).best for method, matrix in found.items()}
    return {name: {"precision": b.precision, "recall": b.recall, "F1": b.f1} for name, b in best.items()}


def as_images(federation: Federation) -> Federation:
    """Digits as 1 x 8 x 8 images, for a convolutional network; images as they are."""
    if federation.test.features.ndim > 2:
        return federation

    def image(samples: Samples) -> Samples:
        return Samples(samples.features.reshape(-1, 1, 8, 8), samples.labels)

    return replace(federation, clients=tuple(map(image, federation.clients)), test=image(federation.test))
