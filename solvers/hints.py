"""What other libraries and papers call things: where letters do not tell what was meant, this table does."""

from __future__ import annotations

#: Names that people try, in small letters without signs between, and ours: the first of them that is known is meant.
#: Names that are near to ours by their letters need no row (`solvers.options.did_you_mean`).
WORDS: dict[str, tuple[str, ...]] = {
    # what a problem has
    "m": ("size", "total", "clients_per_round"),
    "k": ("size", "total", "clients_per_round"),
    "budget": ("total", "time_limit"),
    "h": ("distances",),
    "matrix": ("distances",),
    "alpha": ("weight", "concentration", "importance"),
    "sigma": ("floor",),
    "cityblock": ("manhattan",),
    # what solve takes
    "timeout": ("time_limit",),
    "maxtime": ("time_limit",),
    "tol": ("gap",),
    "certify": ("bound_by",),
    "verbose": ("log",),
    "rng": ("seed",),
    "randomstate": ("seed",),
    "njobs": ("threads", "jobs"),
    "workers": ("threads", "jobs"),
    "x0": ("start",),
    "initialsolution": ("start",),
    "callback": ("watch", "callbacks"),
    "solver": ("method",),
    # methods, and what a solution has
    "bnb": ("branch-and-bound",),
    "exact": ("auto",),
    "highs": ("milp",),
    "ortools": ("cp-sat",),
    "value": ("objective",),
    "fun": ("objective",),
    "ids": ("selected",),
    "runtime": ("seconds",),
    # runs and their training
    "lr": ("learning_rate",),
    "epochs": ("local_epochs", "rounds"),
    "nrounds": ("rounds",),
    "clients": ("clients_per_round", "n_clients"),
    "mu": ("proximal",),
    "criterion": ("loss",),
    "maxgradnorm": ("clip_gradient",),
    "earlystopping": ("patience",),
    "random": ("uniform",),
    "fedavg": ("uniform",),
    "poc": ("power-of-choice",),
}
