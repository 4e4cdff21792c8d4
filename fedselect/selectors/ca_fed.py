"""Selector ``ca-fed``: exclude clients that slow down more than they teach (Rodio et al., INFOCOM 2023)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.availability.protocol import check_rates
from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.options import check_choice, check_count, check_number
from fedselect.rounds.protocol import RoundContext, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.base import (
    SELECTORS,
    Importance,
    Rates,
    SelectorBase,
    Stateful,
    availability_rates,
    check_importance,
    check_solving,
    correlations,
    losses,
    no_clients,
    rates_at,
    solved,
    target_importance,
)
from solvers.weighting import ExclusionProblem


class ChainEstimates(Stateful):
    r"""Bayesian estimates of each client's availability π and eigenvalue λ from what is observed (CA-Fed, §IV-B).

    With a Beta prior of H pseudo-observations,

    .. math:: \hat\pi = \frac{\text{rounds active} + H \pi_0}{\text{rounds} + H}, \quad
              \hat s_a = \frac{n_{aa} + H s_{a,0}}{n_{a\cdot} + H}, \quad
              \hat s_i = \frac{n_{ii} + H s_{i,0}}{n_{i\cdot} + H}, \quad \hat\lambda = \hat s_a + \hat s_i - 1,

    where :math:`n_{xy}` counts transitions between consecutive rounds (the first round gives none), and the stay
    probabilities of the prior are :math:`s_a = \lambda + (1 - \lambda) \pi` and :math:`s_i = 1 - (1 - \lambda) \pi`.
    λ is trace minus one of the 2 x 2 transition matrix. The defaults are Beta(1, 1) for π and for each row.

    Parameters
    ----------
    n_clients : int
        Number of clients N.
    strength : float
        H > 0, in rounds.
    availability, correlation : float or (N,) array-like
        π_0 in (0, 1] and λ_0 in [-1, 1] of the prior.
    denominator : {"row", "total"}
        ``"row"``: as above, consistent. ``"total"``: as the authors' code has it, both rows over all rounds, and all
        clients inactive before the first round; that tends to :math:`-2\pi(1 - \pi)(1 - \lambda)` and not to λ. (Their
        prior is H = 100 at the *true* values.)
    """

    state_names = ("_rounds", "_counts", "_before")

    def __init__(
        self,
        n_clients: int,
        *,
        strength: float = 2.0,
        availability: ArrayLike = 0.5,
        correlation: ArrayLike = 0.0,
        denominator: Literal["row", "total"] = "row",
    ) -> None:
        n = check_count("the number of clients", n_clients)
        try:
            pi, lam = (np.broadcast_to(each, n).astype(float) for each in (availability, correlation))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"the prior must be one number, or one for each of {n} clients: {error}") from None
        if not ((pi > 0) & (pi <= 1) & (np.abs(lam) <= 1)).all():
            raise ConfigError("the prior's availability must lie in (0, 1] and its correlation in [-1, 1]")
        self.strength = check_number("strength", strength, open_low=True)
        self.denominator = check_choice("denominator", denominator, "row", "total")
        self._prior = np.stack([pi, lam + (1 - lam) * pi, 1 - (1 - lam) * pi])  # π, s_a, s_i
        self._rounds = 0
        #: Rounds active; transitions from active, of these to active; from inactive, of these to inactive.
        self._counts = np.zeros((5, n), dtype=np.int64)
        self._before = np.zeros(n, dtype=np.bool_)

    def observe(self, round: int, available: NDArray[np.bool_]) -> None:
        """Record the available clients of one more round."""
        if self._rounds > 0 or self.denominator == "total":
            before = self._before
            self._counts[1:] += np.stack([before, before & available, ~before, ~before & ~available])
        self._counts[0] += available
        self._rounds += 1
        self._before = available.copy()

    @property
    def availability(self) -> NDArray[np.float64]:
        """Estimate of π, shape (N,), in (0, 1]."""
        return (self._counts[0] + self.strength * self._prior[0]) / (self._rounds + self.strength)

    @property
    def correlation(self) -> NDArray[np.float64]:
        """Estimate of λ, shape (N,), in [-1, 1]."""
        _, left, stay, idle, stay_idle = self._counts
        if self.denominator == "total":
            left = idle = np.full_like(left, self._rounds)
        active = (stay + self.strength * self._prior[1]) / (left + self.strength)
        inactive = (stay_idle + self.strength * self._prior[2]) / (idle + self.strength)
        return np.clip(active + inactive - 1.0, -1.0, 1.0)


class KnownChains(Stateful):
    """The true availability and correlation, from an oracle.

    Parameters
    ----------
    availability : (N,) array-like, or callable ``round -> (N,)``
        π in [0, 1].
    correlation : (N,) array-like
        λ in [-1, 1].
    """

    def __init__(self, availability: Rates, correlation: ArrayLike) -> None:
        self._rates = availability if callable(availability) else check_rates(availability, "the availability")
        self.correlation = np.array(correlation, dtype=np.float64)
        if not (np.abs(self.correlation) <= 1).all():
            raise ConfigError(f"the correlation must lie in [-1, 1]; got {correlation!r:.80}")
        self.availability = np.empty(0)

    def observe(self, round: int, available: NDArray[np.bool_]) -> None:
        """Look up the round's true availability."""
        self.availability = np.maximum(rates_at(self._rates, round), 1e-12)  # a client that is never there stays last


class CAFed(SelectorBase):
    r"""Keep the clients that make the error estimate smallest, and weigh them by :math:`\alpha_k / \hat\pi_k`.

    Algorithm 1. Every round all available clients report the loss of the current global model; with the estimates of
    §IV-B, :math:`\hat F_k \leftarrow (1 - \beta) \hat F_k + \beta F_k` for these, :math:`\hat F_k^*` its running
    minimum, :math:`\hat\Gamma' = \max_k (\hat F_k - \hat F_k^*)` and the chain's :math:`\hat\pi, \hat\lambda`, the
    clients to keep solve a `solvers.weighting.ExclusionProblem`. Those kept and available train, with weights
    :math:`\alpha_k / \hat\pi_k` that are not renormalised: excluding clients also shrinks the step, unless ``step``
    says otherwise. Exclusion is decided afresh each round. If none of the kept is available, none trains.

    Decisions where the sources are open or differ. The initial estimates ("initialize", says the paper) are the
    authors' code's: in the first round with available clients, these have their losses and all others the mean
    of these; from then on every loss passes the filter, a client's first one too. The loss is that of the whole
    training part (the paper: one minibatch; the authors' code: the test part). An
    exclusion that leaves the estimate as it is is not made (``ties="keep"``): taken literally, Algorithm 1's "≥ τ" at
    τ = 0 excludes all but one client in the first round, where every loss gap is 0. The last client is never excluded.

    Parameters
    ----------
    importance : (N,) array-like
        Target importance α; sums to 1.
    chains : ChainEstimates or KnownChains, optional
        Where π and λ come from; estimates with Beta(1, 1) priors by default.
    beta : float
        β in (0, 1], how fast loss estimates follow; 0.2 in the paper. (The scripts' "smoothness" is 1 − β.)
    threshold : float
        τ ≥ 0, in units of loss; steers method ``ca-fed`` alone.
    bias_weight : float
        Multiplier ≥ 0 of Γ' (the paper's footnote 4).
    minima : (N,) array-like, optional
        Known smallest losses instead of the running minima; the authors' code has constants.
    method : str
        Any method registered for the exclusion problem: ``"ca-fed"`` is Algorithm 1's greedy, ``"auto"`` exact.
    order : {"signed", "absolute"}
        Order of the greedy's first pass; see `solvers.weighting.exclusion`.
    ties : {"keep", "exclude"}
        Whether exclusions that change nothing are made.
    step : {"published", "full"}
        ``"published"``: the weights are :math:`\alpha_k / \hat\pi_k`. ``"full"``: these are scaled to the sum that the
        weights of all available clients would have, so that excluding clients does not shorten the step. It is a
        control, and in no paper.
    bound_by : str, optional
        A second method, whose bound is put beside the decision; see `fedselect.selectors.base.solved`.
    time_limit : float, optional
        Seconds for the decision, and as many for the bound; the context's limit by default.

    Raises
    ------
    ConfigError
        When an argument is out of range, or (in the round) no finite losses can be had.
    UnknownMethod, InvalidOption
        For ``method`` and ``bound_by``, as `fedselect.selectors.base.check_solving` has it.
    """

    state_names = ("_loss", "_least", "_started", "chains")

    def __init__(
        self,
        *,
        importance: ArrayLike,
        chains: ChainEstimates | KnownChains | None = None,
        beta: float = 0.2,
        threshold: float = 0.0,
        bias_weight: float = 1.0,
        minima: ArrayLike | None = None,
        method: str = "ca-fed",
        order: Literal["signed", "absolute"] = "signed",
        ties: Literal["keep", "exclude"] = "keep",
        step: Literal["published", "full"] = "published",
        bound_by: str | None = None,
        time_limit: float | None = None,
    ) -> None:
        self.importance = check_importance(importance)
        n = self.n_clients = self.importance.size
        self.chains = ChainEstimates(n) if chains is None else chains
        if (size := np.size(self.chains.correlation)) != n:
            raise ConfigError(f"the chains are of {size} clients, the importance of {n}")
        self.beta = check_number("beta", beta, 0, 1, open_low=True)
        self.threshold = check_number("threshold", threshold)
        self.bias_weight = check_number("bias_weight", bias_weight)
        self.order = check_choice("order", order, "signed", "absolute")
        self.ties = check_choice("ties", ties, "keep", "exclude")
        self.step = check_choice("step", step, "published", "full")
        self.method, self.bound_by, self.time_limit = method, bound_by, time_limit
        check_solving(ExclusionProblem, method, bound_by, time_limit)
        self.minima: NDArray[np.float64] | None = None
        if minima is not None:
            try:
                self.minima = np.broadcast_to(np.asarray(minima, dtype=np.float64), (n,))
            except (TypeError, ValueError, OverflowError) as error:
                raise ConfigError(f"minima must be one number for each of {n} clients: {error}") from None
            if not np.isfinite(self.minima).all():
                raise ConfigError(f"minima must be finite; got {minima!r:.80}")
        self._loss = np.zeros(n)  # F̂
        self._least = np.zeros(n)  # running minimum of F̂
        self._started = False

    def _select(self, round: RoundContext) -> Selection:
        """Observe the available clients and their losses, and decide which to keep."""
        self.chains.observe(round.round, round.available)
        present = np.flatnonzero(round.available)
        if present.size == 0:
            return no_clients()
        self._observe(present, losses(round, present, "ca-fed"))
        gaps = self._loss - (self._least if self.minima is None else self.minima)
        problem = ExclusionProblem(
            self.importance,
            gaps,
            self.bias_weight * max(0.0, float(gaps.max())),
            self.chains.availability,
            self.chains.correlation,
            self.threshold,
        )
        options: dict[str, Any] = {"order": self.order, "ties": self.ties} if self.method == "ca-fed" else {}
        # Starting from all kept: a decision no better than that does not replace it.
        start = np.ones(self.importance.size, dtype=np.bool_) if self.ties == "keep" else None
        kept, solution = solved(
            problem, self.method, round, self.time_limit, bound_by=self.bound_by, start=start, **options
        )
        clients = np.flatnonzero(round.available & kept)
        all_weights = self.importance / self.chains.availability
        weights = all_weights[clients]
        if self.step == "full" and (total := weights.sum()) > 0:
            weights = weights * (all_weights[present].sum() / total)
        return Selection(clients, weights, solution=solution)

    def _observe(self, present: NDArray[np.int64], observed: NDArray[np.float64]) -> None:
        """Eq. 16 and the running minimum of what comes out of it; the first round gives the initial estimates."""
        if not self._started:
            self._loss[:] = observed.mean()
            self._loss[present] = observed
            self._least[:] = self._loss
            self._started = True
            return
        self._loss[present] = (1.0 - self.beta) * self._loss[present] + self.beta * observed
        self._least[present] = np.minimum(self._least[present], self._loss[present])


@SELECTORS.register("ca-fed")
def ca_fed(
    scenario: Scenario,
    *,
    method: str = "ca-fed",
    oracle: bool = False,
    convention: Literal["paper", "code"] = "paper",
    beta: float = 0.2,
    threshold: float = 0.0,
    bias_weight: float = 1.0,
    step: Literal["published", "full"] = "published",
    importance: Importance = "samples",
    bound_by: str | None = None,
    time_limit: float | None = None,
) -> CAFed:
    """Exclude clients where that lowers the error estimate.

    Method ``"ca-fed"`` tries them in the order of their correlation, then of their availability, which have no other
    part in the choice. ``oracle=True`` takes the true availability and correlation from the scenario, as the paper's
    experiments do. ``convention="code"`` is the authors' code where it differs: the first pass by absolute correlation,
    exclusions that change nothing made, smallest losses constant (those of a logistic regression on each client's own
    samples; 0 on images, and where a client has one class), and, without the oracle, a prior of 100 rounds at the true
    values with an estimator of λ that is not consistent (see `ChainEstimates`). ``step="full"`` scales a round's
    weights to the sum that they would have had without exclusions.
    """
    n, authors = scenario.n_clients, convention == "code"
    chains: ChainEstimates | KnownChains
    if oracle:
        chains = KnownChains(availability_rates(scenario), correlations(scenario))
    elif authors:
        truth = np.clip(availability_rates(scenario)(0), 1e-12, 1.0)
        chains = ChainEstimates(
            n, strength=100.0, availability=truth, correlation=correlations(scenario), denominator="total"
        )
    else:
        chains = ChainEstimates(n)
    return CAFed(
        importance=target_importance(scenario, importance),
        chains=chains,
        beta=beta,
        threshold=threshold,
        bias_weight=bias_weight,
        minima=_fitted_losses(scenario.federation) if authors else None,
        method=method,
        order="absolute" if authors else "signed",
        ties="exclude" if authors else "keep",
        step=step,
        bound_by=bound_by,
        time_limit=time_limit,
    )


def _fitted_losses(federation: Federation) -> NDArray[np.float64]:
    """Compute the authors' smallest losses, (N,): those of scikit-learn's logistic regression, 0 where it refuses."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    smallest = np.zeros(len(federation))
    for client, samples in enumerate(federation.datasets):
        try:
            model = LogisticRegression(max_iter=1000).fit(samples.features, samples.labels)
        except ValueError:  # features that are no vectors, or labels of one class
            continue
        smallest[client] = log_loss(samples.labels, model.predict_proba(samples.features), labels=model.classes_)
    return smallest
