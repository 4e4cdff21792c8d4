"""Capping: turn weights into inclusion probabilities with a floor and a ceiling, the allocation step of E3CS.

Beside the problem and its methods live the random draws with given inclusion probabilities (`solvers.capping.draws`),
and what E3CS does with them over the rounds (`solvers.capping.theory`).
"""

from solvers.capping import methods, proof
from solvers.capping.draws import DRAWS
from solvers.capping.draws.dep_round import dep_round
from solvers.capping.draws.madow import madow
from solvers.capping.draws.successive import successive, successive_inclusion
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
    "proof",
    "regret_bound",
    "reweighted",
    "successive",
    "successive_inclusion",
]
