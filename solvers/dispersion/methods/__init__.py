"""Methods for problems with a matrix; importing their modules registers them."""

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
    memetic,
    milp,
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
    "memetic",
    "milp",
    "sdp",
    "tabu",
    "three_point",
]
