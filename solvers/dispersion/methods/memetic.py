"""Method ``memetic``: a population of selections, each child improved by tabu search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.methods.tabu import Search
from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.search.neighbourhood import climb, random_decision
from solvers.dispersion.search.population import Population
from solvers.errors import InvalidOption
from solvers.registry import method
from solvers.run import Run

__all__ = ["Memetic", "Relay", "memetic"]

#: Children made when there is neither a time limit nor a number of generations.
_GENERATIONS = 300

#: A population whose last children, so many times its members, were all in vain has collapsed.
_VAIN = 3

#: Moves of tabu search in vain, for each client and at least, after which a population takes over.
_STALLED, _LONG = 20, 10_000

#: Populations one after the other without a better selection after which the search ends before its time.
_BARREN = 50


@method(DispersionProblem, "memetic", kind="heuristic")
def memetic(
    problem: DispersionProblem,
    run: Run,
    *,
    population: int = 15,
    moves: int | None = None,
    generations: int | None = None,
) -> None:
    """Cross selections, keep what two have in common, improve each child by tabu search (Wu and Hao 2013), compiled.

    Members are random selections improved by tabu search; the first is ``start`` or the greedy selection. A child
    takes the place of the worst member if it is better; when none has for long, everybody is dismissed and the search
    begins anew. It is for what `tabu` alone stalls on: many clients, symmetric and geometric problems, where parts of
    two good patterns make a better one.

    Sources: Wu and Hao, Eur. J. Oper. Res. 231 (2013), and Zhou, Hao and Duval, IEEE Trans. Evol. Comput. 21 (2017),
    for maximum diversity; Misevičius, Informatica 17 (2006), for grey patterns; the crossover cuts as Deaven and Ho,
    Phys. Rev. Lett. 75 (1995), cut clusters of atoms (`solvers.dispersion.search.population`).

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Clock, randomness and incumbent.
    population : int
        Members of the population.
    moves : int, optional
        Swaps of tabu search that improve a child; by default n, but at most ten for each client that is chosen (or
        left out, if those are fewer), and at least 200.
    generations : int, optional
        Children to make, the members of a new population among them; by default until the time limit, or until 50
        populations in a row have found nothing better, or 300 without a limit.

    Raises
    ------
    InvalidOption
        When ``population`` is less than two, ``moves`` not positive, or ``generations`` negative.
    """
    if population < 2:
        raise InvalidOption(f"population must be at least 2; got {population}")
    if moves is not None and moves < 1:
        raise InvalidOption(f"moves must be at least 1; got {moves}")
    if generations is not None and generations < 0:
        raise InvalidOption(f"generations must not be negative; got {generations}")
    climb(problem, run)
    search = Memetic(problem, run, population, moves)
    endless = generations is None and run.time_limit is not None
    most = np.iinfo(np.int64).max if endless else _GENERATIONS if generations is None else generations
    while search.generations < most and not run.expired and search.advance(search.moves):
        if endless and search.barren >= _BARREN:
            run.stop("iterations", f"no better selection in {_BARREN} populations")
            break
    run.details["generations"] = search.generations
    run.details["populations"] = search.populations


class Memetic:
    """A memetic search that can be continued, beside the trees of `solvers.dispersion.search.portfolio`.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Whose incumbent is the first member, its randomness, and where better selections are offered.
    population, moves : int, int or None
        As for `memetic`.

    Attributes
    ----------
    generations, populations, barren : int
        Children made, populations begun, and those in a row without a better selection.
    """

    def __init__(
        self,
        problem: DispersionProblem,
        run: Run,
        population: int = 15,
        moves: int | None = None,
    ) -> None:
        self.problem, self.run = problem, run
        self.moves = _enough(problem) if moves is None else moves
        self.tabu = Search(problem, run, self.moves + 1)  # begins with the incumbent
        self.population = Population(problem, population, run.rng)
        self.left = self.moves
        self.generations, self.populations, self.barren = 0, 1, 0
        self._founders, self._vain, self._known = population - 1, 0, run.objective

    def advance(self, moves: int) -> int:
        """Make at most ``moves`` swaps, no more than take some 50 ms; return how many were made (0: no time)."""
        done = self.tabu.advance(min(moves, self.left))
        self.left -= done
        if done and self.left <= 0:
            self._admit()
            self.tabu.begin(self._next())
            self.left = self.moves
        return done

    def _admit(self) -> None:
        """The child is done."""
        x = self.tabu.found()
        entered = self.population.enter(x, self.problem.objective(x))
        self.generations += 1
        if self._founders == 0:
            self._vain = 0 if entered else self._vain + 1

    def _next(self) -> NDArray[np.int64]:
        """Where the next child begins."""
        population = self.population
        if self._founders == 0 and (self._vain >= _VAIN * population.capacity or len(population) < 2):
            self.barren = 0 if self.run.objective != self._known else self.barren + 1
            self._known = self.run.objective
            population.clear()
            self.populations += 1
            self._founders, self._vain = population.capacity, 0
        if self._founders > 0:
            self._founders -= 1
            return random_decision(self.problem, self.run.rng)
        return population.child()


class Relay:
    """Tabu search until it stalls, then a memetic search: what goes on beside a proof.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Where it starts from (``run.x`` or the greedy selection, improved by swaps), its randomness, and where better
        selections are offered.
    """

    def __init__(self, problem: DispersionProblem, run: Run) -> None:
        self.problem, self.run = problem, run
        self.search: Search | Memetic = Search.started(problem, run)
        self._known, self._idle = run.objective, 0

    def advance(self, moves: int) -> int:
        """Make at most ``moves`` swaps, no more than take some 50 ms; return how many were made (0: no time)."""
        done = self.search.advance(moves)
        self._idle = self._idle + done if self.run.objective == self._known else 0
        self._known = self.run.objective
        if isinstance(self.search, Search) and self._idle > max(_LONG, _STALLED * self.problem.n):
            self.search = Memetic(self.problem, self.run)
        return done


def _enough(problem: DispersionProblem) -> int:
    """Swaps after which tabu search from a random selection or a child has found what it finds soon."""
    return max(200, min(problem.n, 10 * problem.size, 10 * (problem.n - problem.size)))
