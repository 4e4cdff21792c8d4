"""Methods of the dispersion problem in every geometry; importing their modules registers them."""

from solvers.dispersion.methods import (
    auto,
    baselines,
    branch_and_bound,
    brute_force,
    circle,
    cp_sat,
    dnn,
    external,
    heuristics,
    kinds,
    memetic,
    milp,
    points,
    sdp,
    tabu,
    three_point,
)

__all__ = [
    "auto",
    "baselines",
    "branch_and_bound",
    "brute_force",
    "circle",
    "cp_sat",
    "dnn",
    "external",
    "heuristics",
    "kinds",
    "memetic",
    "milp",
    "points",
    "sdp",
    "tabu",
    "three_point",
]
