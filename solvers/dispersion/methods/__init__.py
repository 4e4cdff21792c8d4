"""Methods of the dispersion problem in every geometry; importing their modules registers them."""

from solvers.dispersion.methods import (
    auto,
    baselines,
    cp_sat,
    dnn,
    exact,
    external,
    heuristics,
    kinds,
    memetic,
    milp,
    points,
    rlt,
    sdp,
    tabu,
)

__all__ = [
    "auto",
    "baselines",
    "cp_sat",
    "dnn",
    "exact",
    "external",
    "heuristics",
    "kinds",
    "memetic",
    "milp",
    "points",
    "rlt",
    "sdp",
    "tabu",
]
