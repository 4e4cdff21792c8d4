"""Method ``memetic``: a population of selections, each child improved by tabu search."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.methods.tabu import Search
from solvers.dispersion.neighbourhood import local_ascent, random_decision
from solvers.dispersion.policy import DEFAULT_POLICY, Policy
from solvers.dispersion.problem import DispersionProblem
from solvers.options import AtLeast
from solvers.registry import method
from solvers.run import Run


class Population:
    """Distinct selections, at most ``capacity`` of them.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    capacity : int
        Members; at least two.
    rng : numpy.random.Generator
        Draws parents and crossovers.
    policy : Policy
        Which parents are alike.
    """

    def __init__(
        self, problem: DispersionProblem, capacity: int, rng: np.random.Generator, policy: Policy = DEFAULT_POLICY
    ) -> None:
        self.problem, self.capacity, self.rng, self.policy = problem, capacity, rng, policy
        self.clear()

    def clear(self) -> None:
        """Remove all members."""
        self.members: list[NDArray[np.int64]] = []
        self.values: list[float] = []

    def __len__(self) -> int:
        return len(self.members)

    def enter(self, x: NDArray[np.int64], value: float) -> bool:
        """Admit a selection, in the place of the worst member when all are taken; False if it is no gain.

        It is none when it is a member, or where all places are taken no better than the worst.
        """
        if any(np.array_equal(x, member) for member in self.members):
            return False
        if len(self) < self.capacity:
            self.members.append(x)
            self.values.append(value)
            return True
        worst = int(np.argmin(self.values))
        if value <= self.values[worst]:
            return False
        self.members[worst], self.values[worst] = x, value
        return True

    def child(self) -> NDArray[np.int64]:
        """A selection of the clients that two members have in common, and of some that one of them has.

        Some client is drawn, and of those that only one parent has, the child takes the first parent's nearest to it
        and the second's farthest from it. Parents that are nearly alike have a child that is one of them, changed by
        random swaps. Where distances are those of places, parts of two patterns are put together that way (Deaven and
        Ho 1995 cut clusters of atoms so).
        """
        rng, n = self.rng, self.problem.n
        first, second = rng.choice(len(self), 2, replace=False)
        x, other = self.members[first].copy(), self.members[second]
        mine, theirs = np.flatnonzero(x > other), np.flatnonzero(other > x)
        if mine.size < self.policy.alike_parents:
            _perturb(x, rng, self.problem)
            return x
        near = self.problem.distances[rng.integers(n)]
        taken = int(rng.integers(mine.size // 4, mine.size - mine.size // 4))  # of the other parent
        x[_by(near, mine, rng)[mine.size - taken :]] = 0
        x[_by(near, theirs, rng)[mine.size - taken :]] = 1
        return x


def _by(near: NDArray[np.floating], clients: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """The clients in the order of their distances, equal ones in a random order."""
    clients = rng.permutation(clients)
    return clients[np.argsort(near[clients], kind="stable")]


def _perturb(x: NDArray[np.int64], rng: np.random.Generator, problem: DispersionProblem) -> None:
    """Exchange some clients; those that must stay where they are do."""
    movable = problem.feasible.is_movable
    inside, outside = np.flatnonzero((x == 1) & movable), np.flatnonzero((x == 0) & movable)
    if not (inside.size and outside.size):
        return
    swaps = int(rng.integers(1, 2 + min(inside.size, outside.size) // 4))
    x[rng.choice(inside, swaps, replace=False)] = 0
    x[rng.choice(outside, swaps, replace=False)] = 1


@method(DispersionProblem, "memetic", kind="heuristic", constraints=True, work=True)
def memetic(
    problem: DispersionProblem,
    run: Run,
    *,
    population: Annotated[int, AtLeast(2)] = 15,
    moves: Annotated[int, AtLeast(1)] | None = None,
    generations: Annotated[int, AtLeast(0)] | None = None,
) -> None:
    """Cross selections, keep what two have in common, improve each child by tabu search (Wu and Hao 2013), compiled.

    Members are random selections improved by tabu search; the first of all begins with ``start`` or the greedy
    selection. A child takes the place of the worst member if it is better; when none has for long, the population is
    discarded and the search begins anew. It is for what `tabu` stalls on: many clients, symmetric and geometric
    problems.

    Sources: Wu and Hao, Eur. J. Oper. Res. 231 (2013), and Zhou, Hao and Duval, IEEE Trans. Evol. Comput. 21 (2017),
    for maximum diversity; Misevičius, Informatica 17 (2006), for grey patterns; the crossover cuts as Deaven and Ho,
    Phys. Rev. Lett. 75 (1995), cut clusters of atoms (`solvers.dispersion.methods.memetic`).

    Parameters
    ----------
    population : int
        Members of the population.
    moves : int, optional
        Swaps of tabu search that improve a child; by default n, but at most ten for each client that is chosen (or
        left out, if those are fewer), and at least 200.
    generations : int, optional
        Children to make, the members of a new population among them. By default 300 where neither time nor work is
        limited; else until the limit, or until 50 populations in a row have found nothing better.
    """
    local_ascent(problem, run)
    search = Memetic(problem, run, population, moves)
    endless = generations is None and run.is_limited
    policy = search.policy
    most = np.iinfo(np.int64).max if endless else policy.endless_generations if generations is None else generations
    while search.generations < most and not run.expired and search.advance(search.moves):
        if endless and search.stagnant >= policy.stagnant:
            run.stop("iterations", f"no better selection in {policy.stagnant} populations")
            break
    run.details["generations"] = search.generations
    run.details["populations"] = search.populations


class Memetic:
    """A memetic search that can be continued, beside the trees of `solvers.dispersion.tree.portfolio`.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Has the incumbent, from which tabu search makes the first member, and the randomness; better selections are
        offered to it.
    population, moves : int, int or None
        As for `memetic`.
    policy : Policy
        When a population has collapsed.

    Attributes
    ----------
    generations, populations, stagnant : int
        Children made, populations begun, and those in a row without a better selection.
    """

    def __init__(
        self,
        problem: DispersionProblem,
        run: Run,
        population: int = 15,
        moves: int | None = None,
        policy: Policy = DEFAULT_POLICY,
    ) -> None:
        self.problem, self.run, self.policy = problem, run, policy
        self.moves = _enough(problem) if moves is None else moves
        self.tabu = Search(problem, run, self.moves + 1, policy)  # begins with the incumbent
        self.population = Population(problem, population, run.rng, policy)
        self.left = self.moves
        self.generations, self.populations, self.stagnant = 0, 1, 0
        self._initial_left, self._rejected, self._known = population - 1, 0, run.objective

    def advance(self, moves: int) -> int:
        """Make at most ``moves`` swaps, some 10 ms of them or 50 in a call; return how many (0: nothing to choose)."""
        done = self.tabu.advance(min(moves, self.left))
        self.left -= done
        if done and self.left <= 0:
            self._admit()
            self.tabu.begin(self._next())
            self.left = self.moves
        return done

    def _admit(self) -> None:
        """Admit the child that is done to the population."""
        x = self.tabu.found()
        if self.problem.is_constrained and self.problem.violation(x) > 0:
            self.generations += 1
            return  # no selection that keeps all constraints was found from here
        entered = self.population.enter(x, self.problem.objective(x))
        self.generations += 1
        if self._initial_left == 0:
            self._rejected = 0 if entered else self._rejected + 1

    def _next(self) -> NDArray[np.int64]:
        """Where the next child begins."""
        population = self.population
        if self._initial_left == 0 and (
            self._rejected >= self.policy.rejected * population.capacity or len(population) < 2
        ):
            self.stagnant = 0 if self.run.objective != self._known else self.stagnant + 1
            self._known = self.run.objective
            population.clear()
            self.populations += 1
            self._initial_left, self._rejected = population.capacity, 0
        if self._initial_left > 0:
            self._initial_left -= 1
            return random_decision(self.problem, self.run.rng)
        return population.child()


class HybridSearch:
    """Tabu search until it stalls, then a memetic search: what goes on beside a proof.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    run : Run
        Where it starts from (``run.x`` or the greedy selection, improved by swaps), its randomness, and where better
        selections are offered.
    policy : Policy
        When tabu search has stalled.
    """

    def __init__(self, problem: DispersionProblem, run: Run, policy: Policy = DEFAULT_POLICY) -> None:
        self.problem, self.run, self.policy = problem, run, policy
        self.search: Search | Memetic = Search.started(problem, run, policy=policy)
        self._known, self._idle = run.objective, 0

    def advance(self, moves: int) -> int:
        """Make at most ``moves`` swaps, some 10 ms of them or 50 in a call; return how many (0: nothing to choose)."""
        done = self.search.advance(moves)
        self._idle = self._idle + done if self.run.objective == self._known else 0
        self._known = self.run.objective
        if self._idle > max(self.policy.stalled_least, self.policy.stalled * self.problem.n):
            self.cross()
        return done

    def cross(self) -> None:
        """Go on with a memetic search from here."""
        if isinstance(self.search, Search):
            self.search = Memetic(self.problem, self.run, policy=self.policy)


def _enough(problem: DispersionProblem) -> int:
    """Swaps after which tabu search from a random selection or a child has found what it finds soon."""
    return max(200, min(problem.n, 10 * problem.size, 10 * (problem.n - problem.size)))
