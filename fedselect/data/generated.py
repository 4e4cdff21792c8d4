"""Data sets made from a seed: Synthetic(α, β) and CA-Fed's clustered one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.data.federation import Federation, Samples
from fedselect.data.partitions import DATASETS
from fedselect.data.samples import check_seed
from fedselect.errors import ConfigError, DataError
from fedselect.options import check_choice, check_number
from fedselect.randomness import generator


@DATASETS.register("synthetic")
def synthetic(
    *,
    n_clients: int = 30,
    alpha: float = 0.5,
    beta: float = 0.5,
    convention: Literal["paper", "variance", "code"] = "paper",
    samples: int | None = None,
    dimension: int = 60,
    classes: int = 10,
    seed: int = 0,
) -> Federation:
    r"""Generate Synthetic(α, β): every client has its own linear model and its own inputs (FedProx, FedGS).

    Client k draws :math:`u_k \sim N(0, \alpha)`, the entries of :math:`W_k` and :math:`b_k` from :math:`N(u_k, 1)`,
    :math:`B_k \sim N(0, \beta)` and the entries of :math:`v_k` from :math:`N(B_k, 1)`; its inputs are
    :math:`x \sim N(v_k, \mathrm{diag}(j^{-1.2}))` and its labels :math:`\arg\max (W_k^\top x + b_k)`. α = β = 0 does
    not make clients alike: W, b and v still differ.

    It has ⌊LogNormal(4, 2)⌋ + 50 samples, of which 75 % are for training, 15 % for validation and 10 % join the
    server's test set, in this order. Client k's data do not change with the number of clients, unless ``convention`` is
    ``"code"``.

    Parameters
    ----------
    n_clients : int
        Number of clients; FedGS has 30.
    alpha, beta : float
        How much models and inputs differ, at least 0.
    convention : {"paper", "variance", "code"}
        Where the numbers come from: the paper's distribution, by a generator for each client, with α and β as standard
        deviations of u and B, as in FedProx's and FedGS's code; the same with variances, as N(0, α) reads; or the very
        numbers of FedGS's code, one legacy NumPy generator of seed 97 + ``seed`` for all, asked in the order of its
        script: a global model that is not used, u, every W, every b, B, every v, the sizes, every client's inputs. A
        draw of Synthetic(α, β) sets the level of all losses: FedGS's are of the last at seed 0.
    samples : int, optional
        The same number of samples for every client, before the split, instead of log-normal ones; at least 10.
    dimension, classes : int
        Inputs and classes.
    seed : int
        Seed of the data.

    Returns
    -------
    Federation
        ``parameters`` hold each client's [W, b], flattened: FedGS's oracle features.

    Raises
    ------
    ConfigError, DataError
        When an option is out of range.
    """
    if not (alpha >= 0 and beta >= 0 and math.isfinite(alpha + beta)):
        raise ConfigError(f"alpha and beta must be numbers of at least 0; got {alpha} and {beta}")
    check_choice("convention", convention, "paper", "variance", "code")
    check_seed(seed)
    if n_clients < 1 or dimension < 1 or classes < 2 or (samples is not None and samples < 10):
        raise ConfigError("synthetic needs at least 1 client, 1 dimension, 2 classes and 10 samples a client")
    a, b = (math.sqrt(alpha), math.sqrt(beta)) if convention == "variance" else (alpha, beta)
    drawn = _in_one_stream if convention == "code" else _by_client
    train, validation, test, parameters = [], [], [], []
    for w, offset, x in drawn(seed, n_clients, a, b, samples, dimension, classes):
        size, own = len(x), Samples(x.astype(np.float32), np.argmax(x @ w + offset, axis=1))
        first = int(0.75 * size)
        second = int(0.90 * size) if convention == "code" else first + int(0.15 * size)
        train.append(own.take(np.arange(first)))
        validation.append(own.take(np.arange(first, second)))
        test.append(own.take(np.arange(second, size)))
        parameters.append(np.concatenate([w.ravel(), offset]))
    return Federation(
        name="synthetic",
        datasets=tuple(train),
        test=_together(test),
        classes=classes,
        validation=tuple(validation),
        parameters=np.array(parameters),
    )


#: A client's true model, W (d, C) and b (C,), and its inputs (n, d).
_Drawn = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def _by_client(
    seed: int, n_clients: int, a: float, b: float, samples: int | None, dimension: int, classes: int
) -> Iterator[_Drawn]:
    """Draw client k's numbers from a generator of its own."""
    scales = np.arange(1, dimension + 1) ** -0.6  # standard deviations: the variances are j^-1.2
    for client in range(n_clients):
        rng = generator(seed, "data", client=client)
        u, shift = a * rng.standard_normal(), b * rng.standard_normal()
        w = u + rng.standard_normal((dimension, classes))
        offset = u + rng.standard_normal(classes)
        centre = shift + rng.standard_normal(dimension)
        size = int(rng.lognormal(4, 2)) + 50 if samples is None else samples
        yield w, offset, centre + scales * rng.standard_normal((size, dimension))


def _in_one_stream(
    seed: int, n_clients: int, a: float, b: float, samples: int | None, dimension: int, classes: int
) -> Iterator[_Drawn]:
    """Draw all clients' numbers from one legacy generator, in the order in which FedGS's script asks it."""
    rng = np.random.RandomState(97 + seed)  # its stream is the data set
    rng.normal(0, 1, (dimension + 1, classes))  # a global model, which plays no part under this skew
    u = rng.normal(0, a, n_clients)
    models = [rng.normal(u[k], 1, (dimension, classes)) for k in range(n_clients)]
    offsets = [rng.normal(u[k], 1, classes) for k in range(n_clients)]
    centres = [rng.normal(shift, 1, dimension) for shift in rng.normal(0, b, n_clients)]
    sizes = rng.lognormal(4, 2, n_clients).astype(np.int64) + 50
    covariance = np.diag(np.arange(1, dimension + 1) ** -1.2)
    for k in range(n_clients):
        size = int(sizes[k]) if samples is None else samples
        yield models[k], offsets[k], rng.multivariate_normal(centres[k], covariance, size)


@DATASETS.register("clustered", "ca-fed-synthetic")
def clustered(
    *,
    n_clients: int = 24,
    samples: int = 150,
    test_samples: int = 500,
    dimension: int = 10,
    noise: float = 0.2,
    convention: Literal["paper", "code", "authors"] = "code",
    seed: int = 0,
) -> Federation:
    r"""Generate CA-Fed's two clusters of clients, one of them with noisier labels (Appendix F).

    One :math:`w \sim N(0, I)` for all; inputs :math:`x \sim N(0, I)`; with :math:`s = 1 / (1 + e^{-w \cdot x})` the
    label is 1 with probability s in group 0 and :math:`(1 - h) s + h (1 - s)` in group 1. Up to h = 1/2 the best
    prediction is the sign of w·x for both.

    Parameters
    ----------
    n_clients : int
        Number of clients N; even for ``"authors"``.
    samples, test_samples : int
        Each client's samples for training, and those it adds to the test set. The paper says 150; the authors' README
        150 and 500, their scripts 50 and 150.
    dimension : int
        Inputs d; the authors run 10.
    noise : float
        h in [0, 1].
    convention : {"code", "paper", "authors"}
        Reading of the groups: the first half of the clients is group 0, as in the authors' code, or each group is a
        coin toss, as in the paper. ``"authors"`` has the very numbers of their script, whose ``seed`` is 42.
    seed : int
        Seed of the data.

    Returns
    -------
    Federation
        Two classes; ``groups`` are the two groups. The paper's linear model with one output is model ``"logistic"``;
        ``"linear"`` has two and, under the same settings, takes steps twice as long under half the ridge.

    Raises
    ------
    ConfigError, DataError
        When an option is out of range.
    """
    if min(n_clients, samples, test_samples, dimension) < 1:
        raise ConfigError("clustered needs at least 1 client, 1 sample of each kind and 1 dimension")
    check_number("noise", noise, 0, 1)
    check_seed(seed)
    check_choice("convention", convention, "paper", "code", "authors")
    if convention == "authors":
        return AuthorsDraw(n_clients, samples, test_samples, dimension, noise, seed).federation()
    shared = generator(seed, "data")
    w = shared.standard_normal(dimension)
    if convention == "code":
        own = (np.arange(n_clients) >= (n_clients + 1) // 2).astype(np.int64)
    else:
        own = shared.integers(2, size=n_clients)

    def draw(client: int) -> Samples:
        rng = generator(seed, "data", client=1 + client)
        x = rng.standard_normal((samples + test_samples, dimension))
        s = 1 / (1 + np.exp(-(x @ w)))
        chance = (1 - noise) * s + noise * (1 - s) if own[client] else s
        return Samples(x.astype(np.float32), (rng.random(len(x)) < chance).astype(np.int64))

    drawn = [draw(client) for client in range(n_clients)]
    return Federation(
        name="clustered",
        datasets=tuple(each.take(np.arange(samples)) for each in drawn),
        test=_together([each.take(np.arange(samples, samples + test_samples)) for each in drawn]),
        classes=2,
        groups=own,
        parameters=np.tile(w, (n_clients, 1)),
    )


class AuthorsDraw:
    """Numbers of CA-Fed's published script: one NumPy generator, asked in the order of ``data/utils.py``.

    It draws the model, the inputs for training and for the test, their labels, and then which clients are more
    available and correlated.

    Parameters
    ----------
    n_clients, samples, test_samples, dimension, noise, seed
        As for `clustered`; the number of clients is even.

    Raises
    ------
    ConfigError
        When the number of clients is odd.
    """

    def __init__(
        self, n_clients: int, samples: int, test_samples: int, dimension: int, noise: float = 0.2, seed: int = 42
    ) -> None:
        if n_clients % 2:
            raise ConfigError(f"the authors' draw has two groups of the same size; got {n_clients} clients")
        rng = np.random.default_rng(seed)
        self.n_clients, self.samples = n_clients, samples
        self.model = rng.normal(size=dimension)
        shapes = [(2, n_clients // 2, count, dimension) for count in (samples, test_samples)]
        self.inputs = [rng.normal(size=shape) for shape in shapes]
        chances = [1 / (1 + np.exp(-(x @ self.model))) for x in self.inputs]
        for chance in chances:
            chance[1] = noise * (1 - chance[1]) + (1 - noise) * chance[1]
        self.labels = [rng.binomial(n=1, p=chance) for chance in chances]
        self._rng = rng

    def federation(self) -> Federation:
        """Return the data as `clustered` does."""
        flat = [
            (x.reshape(self.n_clients, -1, x.shape[-1]).astype(np.float32), y.reshape(self.n_clients, -1))
            for x, y in zip(self.inputs, self.labels, strict=True)
        ]
        train, test = ([Samples(*each) for each in zip(x, y.astype(np.int64), strict=True)] for x, y in flat)
        return Federation(
            name="clustered",
            datasets=tuple(train),
            test=_together(test),
            classes=2,
            groups=np.repeat([0, 1], self.n_clients // 2),
            parameters=np.tile(self.model, (self.n_clients, 1)),
        )

    def classes(self, noise: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]:
        """Draw, once, which clients are more available, which correlated, and λ of those that are not, (N,) each.

        Half of the clients are more available and hardly correlated; of the others, one half is correlated.
        """
        n = self.n_clients
        order = self._rng.permutation(n)
        shares = np.array([n // 2, n // 4, n // 4])  # more available; less, correlated; less
        shares[: n - shares.sum()] += 1  # what is left goes to the first, one each
        upper, stable, _ = np.split(order, np.cumsum(shares)[:-1])
        more, correlated, weak = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool), np.zeros(n)
        more[upper], correlated[stable] = True, True
        for client in np.flatnonzero(~correlated):
            weak[client] = (self._rng.normal(loc=0.0, scale=noise) + noise) / 2
        return more, correlated, weak


def _together(parts: list[Samples]) -> Samples:
    features: NDArray[np.float32] = np.concatenate([part.features for part in parts])
    if not features.size:
        raise DataError("the clients have no sample left for the test set")
    return Samples(features, np.concatenate([part.labels for part in parts]))
