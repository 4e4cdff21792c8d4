"""One module a method, named by its keyword; importing them registers them."""

from solvers.dispersion.methods import (
    annealing,
    auto,
    branch_and_bound,
    brute_force,
    cp_sat,
    dnn,
    greedy,
    gurobi,
    local_search,
    milp,
    random,
    scip,
    sdp,
    tabu,
    three_point,
)

__all__ = [
    "annealing",
    "auto",
    "branch_and_bound",
    "brute_force",
    "cp_sat",
    "dnn",
    "greedy",
    "gurobi",
    "local_search",
    "milp",
    "random",
    "scip",
    "sdp",
    "tabu",
    "three_point",
]
