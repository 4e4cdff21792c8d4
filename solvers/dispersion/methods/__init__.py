"""Methods of the dispersion problem in every geometry; importing their modules registers them."""

from solvers.dispersion.methods import (
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
