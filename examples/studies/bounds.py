r"""Do the bounds rank methods? Theorems of CA-Fed, FedSS and FedAU with exact constants beside the measured error.

A bound that is far above the error may still say which method is better. Clients are ridge regressions with samples,
targets and noise of their own, so that each loss is quadratic and everything the theorems ask for is known: L and μ are
the largest and smallest eigenvalue of all Hessians, minima and Γ are solved for, and a stochastic gradient is the
gradient plus Gaussian noise of variance σ_k². Bounds on gradients, losses and dissimilarities are the largest values
met on the paths of all methods compared. For each theorem, on each split (a draw of clients and their rates),
Spearman's rank correlation of the bound with the measured error is taken over methods; 1 means that it ranks them all.
``of the means`` is the same of both, averaged over splits, and less blurred by the seeds' noise; ``chosen`` is the
error of the method with the smallest bound, over that of the best.

CA-Fed, Theorems 1-3
    24 clients, of which half are there 0.9 and half 0.1 of the time, half of each in spells (λ = 0.9). Fixed weights
    q in proportion to α/π^s, from s = 0 (all alike) over 1 (Unbiased) to 1.25; χ² (Eq. 13) and total variation (Eq. 14)
    as bias. The theorem's M is the number of states of the chain, 2^24 here; with it and without its term. The weights
    that minimise the bounds are run, too: Eqs. 13 and 14, and guideline B, which leaves correlated clients out where
    the bound gains. Beside these stand the rules AdaFed and F3AST, told π, and CA-Fed, told π and λ.
FedSS, Theorem 1
    40 clients in four groups that differ in size and spread, all there: every allocation of 8 draws to the groups, and
    FedAvg's plain draw.
FedAU, Theorem 2
    24 clients at independent rates between 0.05 and 1: weights with cutoffs K from 1 to ∞, and with known rates. The
    error is the mean squared gradient.

Step sizes are as each theorem wants them, near the largest it allows, and the same for all methods. Errors are means
over seeds of F - F* in the last fifth of the rounds; the unit of replication is the split, intervals are 95 % ones of
Student's t, and ratios to Unbiased are paired by split, and adjusted for their number (Holm).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from comparison import baseline_values, by_cell, holm
from fedselect.availability import TwoState
from fedselect.randomness import generator
from fedselect.rounds.engine import decide, learn, simulate
from fedselect.rounds.protocol import RoundFeedback
from fedselect.rounds.scenario import World
from fedselect.selectors import CAFed, FedAU, KnownChains, OracleF3AST, SelectAll
from fedselect.statistics import compare_means, half_width
from formulas import (
    Smoothness,
    convergence_terms,
    dissimilarity,
    fedavg_term,
    precision_bound,
    stratified_term,
    sweep_correlation,
    training_term,
)
from solvers import solve
from solvers.participation import second_moment, weight_error
from solvers.weighting import convergence_constants
from study import Picture, Rows, Study, Table, main

UNBIASED = "Unbiased"

#: Relative difference of an error from Unbiased's that is of no account.
MARGIN = 0.05


@dataclass(frozen=True)
class Scale:
    """Amount that is run."""

    splits: int
    seeds: int
    horizons: tuple[int, ...]  #: rounds of CA-Fed's methods
    rounds: int  #: of the others'
    dimension: int = 5
    local_steps: int = 5


QUICK = Scale(splits=20, seeds=4, horizons=(100,), rounds=60)
PAPER = Scale(splits=50, seeds=20, horizons=(100, 400, 3000), rounds=1000)


# -- clients of which everything is known ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Ridges:
    """Quadratic losses ½ (w - c)ᵀ H (w - c) above their minima, and noise of the gradients."""

    hessians: Any  #: H, (N, d, d)
    minimisers: Any  #: c, (N, d)
    deviations: Any  #: σ, (N,): a stochastic gradient deviates by a Gaussian of variance σ² in all

    @classmethod
    def drawn(cls, spreads, centres, seed):
        """Draw 50 samples for each client, whose targets' slopes deviate from a centre (N, d) by a spread (N,)."""
        rng = generator(seed, "data")
        n, d = centres.shape
        features = rng.standard_normal((n, 50, d))
        slopes = centres + spreads[:, None] * rng.standard_normal((n, d))
        targets = np.einsum("ksd,kd->ks", features, slopes) + 0.1 * rng.standard_normal((n, 50))
        hessians = np.einsum("ksd,kse->kde", features, features) / 50 + 0.1 * np.eye(d)
        moments = np.einsum("ksd,ks->kd", features, targets) / 50
        return cls(
            hessians, np.linalg.solve(hessians, moments[..., None])[..., 0], np.asarray(rng.uniform(0.2, 1.0, n))
        )

    @property
    def curvature(self):
        """L and μ."""
        values = np.linalg.eigvalsh(self.hessians)
        return float(values.max()), float(values.min())

    def optimum(self, importance):
        """Minimise the weighted mean loss, (d,)."""
        weighted = importance[:, None, None] * self.hessians
        return np.linalg.solve(weighted.sum(axis=0), np.einsum("kde,ke->d", weighted, self.minimisers))

    def gradients(self, w):
        """Compute every client's gradient at ``w``, (d,) or one model for each, (N, d)."""
        return np.einsum("kde,ke->kd", self.hessians, w - self.minimisers)

    def losses(self, w):
        """Compute every client's loss above its minimum, (N,)."""
        return 0.5 * np.einsum("kd,kd->k", w - self.minimisers, self.gradients(w))


@dataclass
class Met:
    """Largest values on the paths so far, of what theorems want bounds on."""

    gradient: float = 0.0  #: norm of a local gradient
    mean_gradient: float = 0.0  #: norm of the mean gradient
    divergence: float = 0.0  #: norm of the difference of the two
    loss_range: float = 0.0  #: change of a loss from the optimum
    within: list = field(default_factory=list)  #: FedSS's H_k², squared dissimilarity within each group
    overall: list = field(default_factory=list)  #: FedSS's H², over all


def paths(task, weights, seeds, rates, local_steps, met, *, server=1.0, live=None, groups=None):
    """Train many times from 0; return F - F* and the squared norm of the gradient of F after each round, (P, T) each.

    ``weights`` (P, T, N) are those of the updates, ``seeds`` (P,) of the noise, the same in all runs of one seed,
    ``rates`` (T,) the learning rates of the rounds and ``server`` the server's; ``met`` grows. Weights of the ``live``
    runs, by place a selector and its world, are put in as the selector decides, which may ask for losses.
    Dissimilarity in ``groups`` (N,) is measured in every tenth round.
    """
    runs, rounds, n = weights.shape
    d, centres = task.minimisers.shape[1], task.minimisers[:, None]
    least = task.losses(task.optimum(np.full(n, 1 / n)))
    w, which = np.zeros((runs, d)), np.unique(np.asarray(seeds), return_inverse=True)
    errors, gradients = np.empty((runs, rounds)), np.empty((runs, rounds))

    def slopes(models):
        return np.matmul(models - centres, task.hessians)  # Hessians are symmetric

    for t, rate in enumerate(rates):
        losses = 0.5 * ((w - centres) * slopes(np.broadcast_to(w, (n, runs, d)))).sum(axis=2)
        for run, (selector, world) in (live or {}).items():
            decision = decide(selector, world, t, probe=partial(np.take, losses[:, run]))
            weights[run, t, decision.selection.clients] = decision.selection.weights
            learn(selector, RoundFeedback(t, decision.selection, decision.outcomes))
        drawn = [generator(seed, "training", t).standard_normal((local_steps, n, d)) for seed in which[0].tolist()]
        noise = np.stack(drawn)[which[1]].transpose(1, 2, 0, 3) * (task.deviations[:, None, None] / np.sqrt(d))
        own = np.repeat(w[None], n, axis=0)
        for step in range(local_steps):
            slope = slopes(own)
            met.gradient = max(met.gradient, float(np.linalg.norm(slope, axis=2).max()))
            own = own - rate * (slope + noise[step])
        w = w + server * np.einsum("pk,kpd->pd", weights[:, t], own - w)
        slope = slopes(np.broadcast_to(w, (n, runs, d)))
        losses, mean = 0.5 * ((w - centres) * slope).sum(axis=2), slope.mean(axis=0)
        errors[:, t] = losses.mean(axis=0) - least.mean()
        gradients[:, t] = (mean**2).sum(axis=1)
        met.mean_gradient = max(met.mean_gradient, float(np.sqrt(gradients[:, t].max())))
        met.divergence = max(met.divergence, float(np.linalg.norm(slope - mean, axis=2).max()))
        met.loss_range = max(met.loss_range, float(np.abs(losses - least[:, None]).max()))
        if groups is not None and t % 10 == 0:
            unlike = [dissimilarity(slope[:, run], groups) for run in range(runs)]
            met.within += [each.within for each in unlike]
            met.overall += [each.overall for each in unlike]
    return errors, gradients


def simulated(selector, there, rounds, seed):
    """Return the weights that a selector gives without training, (T, N)."""
    n = there.available(0).size
    weights = np.zeros((rounds, n))
    for each in simulate(selector, there, sizes=np.ones(n, dtype=np.int64), rounds=rounds, seed=seed):
        weights[each.round, each.selection.clients] = each.applied
    return weights


def late(values):
    """Average over the last fifth of the rounds, the last axis."""
    return values[..., -max(1, values.shape[-1] // 5) :].mean(axis=-1)


# -- CA-Fed: weights ---------------------------------------------------------------------------------------------------


def chains(n, seed):
    """Draw which half is there 0.9 of the time, the others 0.1, and which half of either is in spells."""
    kinds = generator(seed, "profile").permutation(np.arange(n) % 4)
    return TwoState(np.where(kinds < 2, 0.9, 0.1), np.where(kinds % 2 == 0, 0.9, 0.0), seed)


def constants_of(task, rates, local_steps, total, met, correlation, states):
    """Compute the constants of CA-Fed's theorems: rates (T + 1,), sum of weights Q, largest λ of those kept, and M."""
    smooth, convex = task.curvature
    best = task.optimum(np.full(len(task.deviations), 1 / len(task.deviations)))
    return convergence_constants(
        smoothness=smooth,
        strong_convexity=convex,
        deviations=task.deviations,
        step_sizes=rates,
        local_steps=local_steps,
        total=total,
        gradient_bound=met.gradient,
        gradient_moment=float(np.hypot(met.gradient, task.deviations.max())),
        loss_range=met.loss_range,
        heterogeneity=float(task.losses(best).max()),
        distance=float(np.linalg.norm(best)),
        states=states,
        correlation=(correlation + 1) / 2,
    )


def weights_of(scale, horizon, split):
    """Run CA-Fed's weights and rules on one split; a row per method with its error and its bounds."""
    n, steps = 24, scale.local_steps
    centre = generator(split, "noise").standard_normal(scale.dimension)
    task = Ridges.drawn(np.full(n, 0.5), np.tile(centre, (n, 1)), split)
    kinds, alpha = chains(n, split), np.full(n, 1 / n)
    pi, lam = kinds.stationary, kinds.correlation
    total = float((alpha / pi).sum())
    rates = 1 / (2 * task.curvature[0] * (steps * total + 2)) / (1 + np.arange(horizon + 1) / horizon)
    seeds, met = range(100 * split, 100 * split + scale.seeds), Met()
    there = {seed: TwoState(pi, lam, seed) for seed in seeds}
    history = {seed: np.array([there[seed].available(t) for t in range(horizon)]) for seed in seeds}
    rows = []

    def add(methods, live=False):
        weights = np.zeros((len(methods), len(seeds), horizon, n))
        running = {}
        for i, (j, seed) in itertools.product(range(len(methods)), enumerate(seeds)):
            make = [*methods.values()][i]
            if live:
                running[i * len(seeds) + j] = make(), World(np.ones(n, dtype=np.int64), there[seed], seed=seed)
            elif callable(make):
                weights[i, j] = simulated(make(), there[seed], horizon, seed)
            else:
                weights[i, j] = history[seed] * make
        of_seed = [*seeds] * len(methods)
        flat = weights.reshape(-1, horizon, n)
        found = late(paths(task, flat, of_seed, rates[1:], steps, met, live=running)[0]).reshape(len(methods), -1)
        for method, errors in zip(methods, found, strict=True):
            rows.append({"horizon": horizon, "split": split, "method": method, "error": float(errors.mean())})

    fixed = {f"power {s:g}" if s != 1 else UNBIASED: alpha / pi**s for s in (0, 0.25, 0.5, 0.75, 1, 1.25)}
    fixed = {name: q * total / q.sum() for name, q in fixed.items()}
    add(fixed)
    add({"AdaFed": lambda: SelectAll("adafed", rates=pi)})
    add({"F3AST": lambda: OracleF3AST(n // 2, importance=alpha, rates=pi, beta=1 / horizon)})
    add({"CA-Fed": lambda: CAFed(importance=alpha, chains=KnownChains(pi, lam), minima=np.zeros(n))}, live=True)
    gamma = float(task.losses(task.optimum(alpha)).max())

    def constants(kept, states):
        return constants_of(task, rates, steps, total, met, float(lam[kept].max()), states)

    every, none = np.ones(n, dtype=np.bool_), 1e-9
    known = constants(every, none)
    tv = known.total_error(pi, alpha, gamma, "tv")
    optimal = {
        "Eq. 13": solve(known.total_error(pi, alpha, gamma, "chi2")).x,
        "Eq. 14": solve(tv).x,
        "guideline B": sweep_correlation(replace(tv, constant=known.psi), lam, known.phi),
        "Eq. 13, M = 2^24": solve(constants(every, 2.0**n).total_error(pi, alpha, gamma, "chi2")).x,
    }
    add(optimal)
    for row in rows:
        q = (fixed | optimal).get(row["method"])
        for label, states in (("", none), (", M = 2^24", 2.0**n)):
            for bias in ("chi2", "tv"):
                found = np.nan
                if q is not None:
                    here = constants(q > 0, states)
                    found = here.factor * here.total_error(pi, alpha, gamma, bias).objective(q)
                row[f"{bias}{label}"] = found
        row["excluded"] = np.nan if q is None else int((q <= 0).sum())
    return pd.DataFrame(rows)


# -- FedSS: allocations ------------------------------------------------------------------------------------------------


#: Clients of each group, and spread of their targets' slopes; draws.
GROUPS, SPREADS, DRAWS = (16, 12, 8, 4), (0.2, 0.4, 0.8, 1.2), 8


def drawn_from(groups, allocation, keys):
    """Return weights (T, N) of draws without replacement: in each group, so many clients of the smallest keys (T, N).

    A group's weights sum to its share of all clients.
    """
    weights = np.zeros(keys.shape)
    for group, size in enumerate(allocation):
        members = np.flatnonzero(groups == group)
        ranks = keys[:, members].argsort(axis=1).argsort(axis=1)
        weights[:, members] = (ranks < size) * (members.size / groups.size / size)
    return weights


def allocations_of(scale, split):
    """Run every allocation of FedSS on one split; a row each, with its error and bound."""
    groups = np.repeat(np.arange(len(GROUPS)), GROUPS)
    n, steps = groups.size, scale.local_steps
    centres = generator(split, "noise").standard_normal((len(GROUPS), scale.dimension))
    task = Ridges.drawn(np.repeat(SPREADS, GROUPS), centres[groups], split)
    smooth, convex = task.curvature
    shift = max(8 * smooth / convex - 1, steps)
    rates = 2 / (convex * (shift + steps * np.arange(1, scale.rounds + 1)))
    choices = [s for s in itertools.product(*(range(1, size + 1) for size in GROUPS)) if sum(s) == DRAWS]
    seeds, met = range(100 * split, 100 * split + scale.seeds), Met()
    keys = [np.array([generator(s, "selector", t).random(n) for t in range(scale.rounds)]) for s in seeds]
    plans = [*((groups, s) for s in choices), (np.zeros(n, dtype=np.int64), (DRAWS,))]
    weights = np.array([drawn_from(*plan, each) for plan in plans for each in keys])
    found = late(paths(task, weights, [*seeds] * len(plans), rates, steps, met, groups=groups)[0])
    names = [*("-".join(map(str, s)) for s in choices), "FedAvg"]
    errors = found.reshape(len(plans), -1).mean(axis=1)
    rows = [{"split": split, "method": name, "error": float(e)} for name, e in zip(names, errors, strict=True)]
    best = task.optimum(np.full(n, 1 / n))
    training = training_term(
        task.deviations**2, float(task.losses(best).mean()), smooth, met.gradient, epochs=1, batches=steps
    )
    within, overall = np.sqrt(np.max(met.within, axis=0)), float(np.sqrt(np.max(met.overall)))
    terms = {name: stratified_term(GROUPS, s, within, 1, steps) for name, s in zip(names[:-1], choices, strict=True)}
    terms["FedAvg"] = fedavg_term(n, DRAWS, overall, 1, steps)
    for row in rows:
        sampling = terms[str(row["method"])]
        row["bound"] = precision_bound(
            training, sampling, float(best @ best), smooth, convex, epochs=1, batches=steps, rounds=scale.rounds
        )
    return pd.DataFrame(rows)


# -- FedAU: cutoffs ----------------------------------------------------------------------------------------------------


def cutoffs_of(scale, split):
    """Run FedAU's weights on one split; a row per cutoff, with the mean squared gradient and Theorem 2's bound."""
    n, steps = 24, scale.local_steps
    centre = generator(split, "noise").standard_normal(scale.dimension)
    task = Ridges.drawn(np.full(n, 0.5), np.tile(centre, (n, 1)), split)
    rates = generator(split, "profile").uniform(0.05, 1.0, n)
    smooth, _ = task.curvature
    cutoffs = {f"K = {k}": k for k in (1, 2, 5, 10, 20, 50)} | {"K = ∞": None}
    seeds = range(100 * split, 100 * split + scale.seeds)
    chain = {seed: TwoState(rates, 0.0, seed) for seed in seeds}
    history = {seed: np.array([chain[seed].available(t) for t in range(scale.rounds)]) for seed in seeds}
    moments = {name: max(second_moment(history[seed], rates, k) for seed in seeds) for name, k in cutoffs.items()}
    errors = {name: float(np.mean([weight_error(history[s], rates, k) for s in seeds])) for name, k in cutoffs.items()}
    moments["known rates"], errors["known rates"] = float(np.mean(1 / rates)), 0.0
    local = 1 / (4 * np.sqrt(15) * smooth * steps)
    both = min(1 / (4 * smooth * steps), n / (54 * smooth * steps * max(moments.values())))
    met, constant = Met(), np.full(scale.rounds, local)
    makes = {name: partial(FedAU, n, cutoff=k) for name, k in cutoffs.items()}
    selectors = [
        [makes[name]() if name in makes else SelectAll("unbiased", rates=rates) for _ in seeds] for name in moments
    ]
    weights = np.array(
        [simulated(each, chain[s], scale.rounds, s) for own in selectors for each, s in zip(own, seeds, strict=True)]
    )
    found = paths(task, weights, [*seeds] * len(moments), constant, steps, met, server=both / local)[1].mean(axis=1)
    errors_met = found.reshape(len(moments), -1).mean(axis=1)
    rows = [{"split": split, "method": m, "error": float(e)} for m, e in zip(moments, errors_met, strict=True)]
    best, start = task.optimum(np.full(n, 1 / n)), np.zeros(scale.dimension)
    known = Smoothness(
        smooth,
        float(task.deviations.max()) ** 2,
        met.divergence**2,
        float((task.losses(start) - task.losses(best)).mean()),
        met.mean_gradient**2,
    )
    for row in rows:
        row["bound"] = math.fsum(
            convergence_terms(
                known,
                n_clients=n,
                rounds=scale.rounds,
                steps=steps,
                local_rate=local,
                server_rate=both / local,
                second_moment=moments[str(row["method"])],
                weight_error=errors[str(row["method"])],
            )
        )
    return pd.DataFrame(rows)


# -- tables and figure -------------------------------------------------------------------------------------------------


def ranks_of(rows, columns, methods=None):
    """Correlate bounds with errors by rank over methods, on each split; a row per bound, averaged over splits."""
    from scipy.stats import spearmanr

    chosen = rows if methods is None else rows[rows["method"].isin(methods)]
    found = []
    for column in columns:
        finite = chosen[np.isfinite(chosen[column])]
        of_split = [float(spearmanr(part[column], part["error"])[0]) for _, part in finite.groupby("split")]
        best = [part.loc[part[column].idxmin(), "error"] / part["error"].min() for _, part in finite.groupby("split")]
        means = finite.groupby("method")[[column, "error"]].mean()
        found.append(
            {"bound": column, "methods": len(means), "rank correlation": np.mean(of_split), "±": half_width(of_split)}
            | {"of the means": float(spearmanr(means[column], means["error"])[0])}
            | {"chosen / best error": np.mean(best), "± chosen": half_width(best)}
            | {"bound / error": float((finite[column] / finite["error"]).median()), "splits": len(of_split)}
        )
    return pd.DataFrame(found)


def beside_unbiased(rows):
    """Average CA-Fed's methods over splits, with their error's paired ratio to Unbiased's."""
    ratio = rows["error"] / baseline_values(rows, "method", UNBIASED, ["horizon", "split"], "error")

    def measure(part):
        test = compare_means(np.log(part["ratio"]), margin=np.log1p(MARGIN))
        is_base = (part["method"] == UNBIASED).all()
        return (
            {"error": part["error"].mean(), "± error": half_width(part["error"]), "of Unbiased's": part["ratio"].mean()}
            | {"±": half_width(part["ratio"]), "splits": len(part), "excluded": part["excluded"].mean()}
            | {"p": np.nan if is_base else test.p, "chi2": part["chi2"].mean(), "tv": part["tv"].mean()}
        )

    table = by_cell(rows.assign(ratio=ratio), ["horizon", "method"], measure).rename(columns={"horizon": "rounds"})
    table["adjusted"] = holm(table.pop("p"))
    return table


def bounds_figure(blocks):
    """Draw bound against error, each of the mean over methods on its split: a panel per theorem."""
    figure = Figure(figsize=(3.4 * len(blocks), 3.4), layout="constrained")
    axes = figure.subplots(1, len(blocks), squeeze=False)[0]
    for axis, (title, (rows, column)) in zip(axes, blocks.items(), strict=True):
        finite = rows[np.isfinite(rows[column])]
        shares = finite[[column, "error"]] / finite.groupby("split")[[column, "error"]].transform("mean")
        axis.scatter(shares[column], shares["error"], s=4, color="#B0C4DE", label="one split")
        means = shares.groupby(finite["method"], sort=False).mean()
        axis.scatter(means[column], means["error"], s=16, color="#D55E00", label="mean")
        for method, (x, y) in means.iterrows() if len(means) < 12 else ():
            axis.annotate(str(method), (x, y), fontsize=6, xytext=(2, 2), textcoords="offset points")
        axis.set(title=title, xlabel="bound, of the methods' mean")
    axes[0].legend()
    figure.axes[0].set(ylabel="measured error,\nof the methods' mean")
    return figure


def results(setup):
    """Yield rank correlations, CA-Fed's methods beside Unbiased, and the figure."""
    scale = setup.scale
    by_split = {(split,): (scale, split) for split in range(scale.splits)}
    by_horizon = {(h, split): (scale, h, split) for split in range(scale.splits) for h in scale.horizons}
    weights, allocations, cutoffs = (
        pd.concat(setup.parts(name, compute, plan).values(), ignore_index=True)
        for name, compute, plan in (
            ("weights", weights_of, by_horizon),
            ("allocations", allocations_of, by_split),
            ("cutoffs", cutoffs_of, by_split),
        )
    )
    for name, rows in (("weights", weights), ("allocations", allocations), ("cutoffs", cutoffs)):
        yield Rows(rows, name)
    family = (*(f"power {s:g}" for s in (0, 0.25, 0.5, 0.75, 1.25)), UNBIASED)
    of = {f"CA-Fed, {h} rounds": weights[weights["horizon"] == h] for h in setup.scale.horizons}
    columns = ("chi2", "tv", "chi2, M = 2^24", "tv, M = 2^24")
    parts = [ranks_of(rows, columns, family).assign(theorem=name) for name, rows in of.items()]
    parts += [
        ranks_of(allocations, ("bound",)).assign(theorem="FedSS"),
        ranks_of(cutoffs, ("bound",)).assign(theorem="FedAU"),
    ]
    ranks = pd.concat(parts, ignore_index=True)
    yield Table(ranks[["theorem", *ranks.columns[:-1]]], "Rank correlation of bound and error", "ranks", 2, "%.5g")
    yield Table(beside_unbiased(weights), "Errors beside Unbiased's", "weights", 3, "%.5g")
    for name, rows in (("allocations", allocations), ("cutoffs", cutoffs)):
        means = rows.groupby("method", sort=False)[["error", "bound"]].agg(["mean", half_width]).reset_index()
        means.columns = pd.Index(["method", "error", "± error", "bound", "± bound"])
        yield Table(means, f"Errors and bounds by method: {name}", name, 4, "%.5g")
    last = of[f"CA-Fed, {setup.scale.horizons[-1]} rounds"]
    blocks = {
        "CA-Fed's weights (χ²)": (last[last["method"].isin(family)], "chi2"),
        "FedSS's allocations": (allocations, "bound"),
        "FedAU's cutoffs": (cutoffs, "bound"),
    }
    yield Picture(bounds_figure(blocks), "ranks")


STUDY = Study(__doc__, QUICK, PAPER, results)


if __name__ == "__main__":
    main(STUDY)
