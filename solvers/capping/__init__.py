"""Capping: turn weights into inclusion probabilities with a floor and a ceiling, the allocation step of E3CS.

Beside the problem and its methods live the random draws with given inclusion probabilities (`solvers.capping.draws`),
and what E3CS does with them over the rounds (`solvers.capping.theory`).
"""

from solvers.capping import methods
from solvers.capping.draws import DRAWS, dep_round, madow, successive, successive_inclusion
from solvers.capping.problem import CappingProblem
from solvers.capping.theory import best_rate, constant_floors, incremental_floors, regret_bound, reweighted

__all__ = [
    "DRAWS",
    "CappingProblem",
    "best_rate",
    "constant_floors",
    "dep_round",
    "incremental_floors",
    "madow",
    "methods",
    "regret_bound",
    "reweighted",
    "successive",
    "successive_inclusion",
]
