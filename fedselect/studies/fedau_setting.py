"""FedAU's setting, as its paper and its authors' code state it: methods, models, and how much of it is run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedselect.experiments import Choice, Experiment
from fedselect.training.settings import TrainingSettings

#: Image data, in the order of the columns of the poster's table.
IMAGES = ("svhn", "cifar10", "cifar100", "cinic10")

PATTERNS = {"Bernoulli": "fedau-bernoulli", "Markov": "fedau-markov", "cyclic": "fedau-cyclic"}

#: Selector and server rule; local and server learning rates of the authors' README.
METHODS = {
    "FedAU, K = ∞": (Choice("fedau"), "fedavg", 0.1, 1.0),
    "FedAU, K = 50": (Choice("fedau", {"cutoff": 50}), "fedavg", 0.1, 1.0),
    "average participating": (Choice("average-participating"), "fedavg", 0.0562, 1.78),
    "average all": (Choice("average-all"), "fedavg", 0.1, 10.0),
    "known participation": (Choice("known-participation"), "fedavg", 0.0562, 1.0),
    "FedVARP": (Choice("average-participating"), "fedvarp", 0.0562, 1.0),
    "MIFA": (Choice("average-participating"), "mifa", 0.0562, 1.0),
}

#: The paper's CNNs; the small tasks have one hidden layer of 64.
MODELS = {"svhn": "cnn-fedau-svhn", "cifar10": "cnn-fedau-cifar10"}
MODELS |= dict.fromkeys(("cifar100", "cinic10"), "cnn-fedau-cifar100")

#: Of the authors' code.
AUGMENTATION = {"svhn": "crop", "cifar10": "crop-flip", "cifar100": "fedau-cifar100", "cinic10": "crop-flip"}


@dataclass(frozen=True)
class Scale:
    """How much is run; without learning rates to try, the README's are taken."""

    clients: int
    rounds: int
    seeds: tuple[int, ...]
    horizons: tuple[int, ...]
    equal: tuple[float, ...]  # server rates at which FedAU (K = 50) and known participation meet
    local: tuple[float, ...] = ()
    server: tuple[float, ...] = ()
    screening: tuple[int, int] | None = None  # rounds, and how many pairs of rates go on to the full length


# 2 000 rounds are the code's default; the README has 10 000 for CIFAR-10. The paper has five seeds: three keep this to
# an hour of one processor, most of which is tuning.
PAPER = Scale(
    clients=250,
    rounds=2000,
    seeds=(1, 2, 3),
    horizons=(500, 2000, 10000),
    equal=(10**0.5, 10.0),
    local=(10**-1.5, 0.1, 10**-0.5),
    server=(1.0, 10**0.5, 10.0),  # up to the README's largest; 10^1.5 learns fast under one seed and fails under others
    screening=(250, 3),
)
QUICK = Scale(clients=250, rounds=300, seeds=(1, 2), horizons=(500, 2000), equal=(1.0,))

#: Under each pattern rates are tuned with a seed of its own.
TUNING_SEEDS = {"Bernoulli": 1000, "Markov": 1001, "cyclic": 1002}


def experiment(pattern: str, method: str, dataset: str, root: Path, scale: Scale, seed: int) -> Experiment:
    """One run, at the README's learning rates."""
    selector, rule, local, server = METHODS[method]
    data: dict[str, object] = {"clients": scale.clients, "seed": seed}
    if dataset == "synthetic":
        data["samples"] = 200
    else:
        data["partition"] = "dirichlet-per-class"
    if dataset in IMAGES:
        data["root"] = str(root)
    return Experiment(
        name="fedau",
        rounds=scale.rounds,
        seed=seed,
        clients_per_round=1,  # of no account: everybody who is there takes part
        checkpoint_every=200,
        data=Choice(dataset, data),
        availability=Choice(PATTERNS[pattern]),
        selector=selector,
        training=TrainingSettings(
            model=MODELS.get(dataset, "mlp"),
            learning_rate=local,
            decay=1.0,
            local_steps=5,
            batch_size=16,
            server_rule=rule,
            server_learning_rate=server,
            importance="equal",
            evaluate_every=10,
            initialisation="kaiming" if dataset in IMAGES else "fan-in",
            augmentation=AUGMENTATION.get(dataset, "none"),
        ),
    )
