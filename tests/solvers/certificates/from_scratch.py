"""Certificates that a generator makes up, about problems whose files it changes as well, for both checkers.

Every field is drawn, in the ranges of its kind, so that many are accepted; then some numbers are replaced. Half of the
problems' files have other types, numbers and fields than any problem has. What is accepted is compared with the
optimum, by enumeration in fractions where decisions are selections.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import time
import traceback
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from solvers import solve
from solvers.allocation import AllocationProblem
from solvers.balance import BalanceProblem
from solvers.capping import CappingProblem
from solvers.certificates import Certificate, CertificateError, check, check_certificate, problem_digest
from solvers.constraints import Budget, Quota
from solvers.coverage import CoverageProblem
from solvers.dispersion import DispersionProblem, KindDispersionProblem, PointDispersionProblem, QuadraticProblem
from solvers.errors import InvalidProblem
from solvers.participation import CutoffProblem
from solvers.problem import load, parts
from solvers.schedule import ScheduleProblem
from solvers.weighting import ExclusionProblem, OptimizationErrorProblem, TotalErrorProblem
from tests.solvers.certificates.test_one_file import digest_of, made_out, others, written
from tests.solvers.certificates.test_soundness import NONE, integers, with_rlt

#: The kinds, of which every one gets as many certificates.
KINDS = tuple(check_certificate.SCHEMAS)


def numbers(rng, *shape):
    """Numbers of one of several sorts: ties, decimals, whole ones, tiny and large ones, or zeros."""
    sort = int(rng.integers(6))
    if sort == 0:
        return rng.integers(0, 3, shape).astype(float)
    if sort == 1:
        return np.round(rng.random(shape), 1)
    if sort == 2:
        return rng.random(shape) * 10.0 ** rng.integers(-8, 9)
    if sort == 3:
        return rng.integers(1, 2**30, shape).astype(float)
    return rng.random(shape) if sort == 4 else np.zeros(shape) + float(rng.integers(2))


def sides(rng, n):
    """Side constraints, or most often none."""
    stated = {}
    if rng.random() < 0.6:
        return stated
    ids = rng.permutation(n).tolist()
    if rng.random() < 0.4:
        stated["include"], stated["exclude"] = ids[:1], ids[1 : 1 + int(rng.integers(2))]
    if rng.random() < 0.5:
        stated["quotas"] = [Quota(sorted(ids[:4]), int(rng.integers(2)), int(rng.integers(1, 3)))]
    if rng.random() < 0.5:
        use = np.round(rng.random(n), 1) + 0.1
        stated["budgets"] = [Budget(use, float(np.round(np.sort(use)[: n // 2].sum() * rng.uniform(1, 2), 1)))]
    if rng.random() < 0.3:
        stated["conflicts"] = [ids[2:4]]
    return stated


def problem_of(kind, rng):
    """A small problem that certificates of a kind are about."""
    n = int(rng.integers(2, 8))
    m = int(rng.integers(1, n + 1))
    weight = float(rng.choice([1.0, 0.0, 0.3, 2.0]))
    h = np.triu(numbers(rng, n, n), 1)
    match kind:
        case "allocation":
            sizes = rng.integers(1, 30, n)
            return AllocationProblem(sizes, numbers(rng, n), int(rng.integers(n, sizes.sum() + 1)))
        case "capping":
            return CappingProblem(log_weights=rng.normal(0, 3, n), size=m, floor=float(rng.uniform(0, m / n)))
        case "cutoff":
            return CutoffProblem(rng.uniform(0.01, 1, n), int(rng.integers(2, 5000)))
        case "exclusion":
            share = rng.integers(1, 4, n) / 1.0
            return ExclusionProblem(share / share.sum(), numbers(rng, n) - 0.5, float(rng.choice([0.0, 0.5, 3.0])))
        case "optimization-error" | "total-error":
            common = (
                rng.uniform(0.05, 1, n),
                rng.uniform(0.1, 3, n),
                float(rng.uniform(0, 5)),
                float(rng.uniform(0.5, 3)),
            )
            if kind == "optimization-error":
                return OptimizationErrorProblem(*common, constant=float(rng.normal()))
            bias = {"bias": str(rng.choice(["tv", "chi2"])), "bias_weight": float(rng.choice([0.0, 0.5, 4.0]))}
            return TotalErrorProblem(*common, importance=rng.dirichlet(np.ones(n)), **bias)
        case "schedule":
            return ScheduleProblem(rng.random((3, min(n, 5))) < 0.6, min(m, 2), rng.integers(0, 5, min(n, 5)))
        case "coverage":
            similar = numbers(rng, int(rng.integers(1, 5)), n) - float(rng.integers(2))
            costs = numbers(rng, n) - float(rng.integers(2)) if rng.random() < 0.5 else None
            return CoverageProblem(similar, m, costs, **(sides(rng, n) if rng.random() < 0.3 else {}))
        case "balance":
            return BalanceProblem(
                rng.integers(0, 5, (n, 3)) + np.eye(3, dtype=int)[rng.integers(0, 3, n)], m, **sides(rng, n)
            )
        case "points":
            return PointDispersionProblem(numbers(rng, n, 2), numbers(rng, n), size=m, weight=weight, **sides(rng, n))
        case "kinds":
            k = np.array([[0.0, 2.0], [2.0, 1.0]])
            kinds = np.append([0, 1], rng.integers(0, 2, n - 2))
            return KindDispersionProblem(k, kinds, numbers(rng, n), size=m, weight=weight, **sides(rng, n))
        case "quadratic" | "quadratic-rlt":
            q = numbers(rng, n, n) * rng.choice([-1.0, 1.0], (n, n))
            facts = {"sense": str(rng.choice(["max", "min"])), "constant": float(rng.choice([0.0, 0.1, -7.0]))}
            return QuadraticProblem(q + q.T, m, **facts, **sides(rng, n))
    return DispersionProblem(h + h.T, numbers(rng, n), size=m, weight=weight, **sides(rng, n))


def on_slice(rng, n, total, grain):
    """Shares up to ``grain`` that sum to ``total``, of which most are whole."""
    point = np.zeros(n, int)
    if rng.random() < 0.5 and n:
        point += total // n
    while point.sum() < total:
        k = int(rng.integers(n))
        point[k] = min(grain, point[k] + total - point.sum())
    return point


def search(problem, rng, rows):
    """A tree whose nodes use one form over all clients, or none, with any multipliers."""
    n, m, grain = problem.n, problem.size, int(rng.choice([1, 2, 12]))
    origins, clients = [], []

    def visit(origin, depth):
        if depth and rng.random() < 0.9:
            number = len(origins)
            origins.append(origin)
            clients.append(int(rng.integers(n)) if rng.random() < 0.9 else -1)
            visit(2 * number, depth - 1)
            visit(2 * number + 1, depth - 1)

    visit(-1, int(rng.integers(0, n + 1)))
    count = len(origins)
    pairs = list(itertools.combinations(range(n), 2))
    chosen = [pairs[k] for k in rng.permutation(len(pairs))[: int(rng.integers(0, 4))]]
    large = int(rng.choice([1, 8, 1 << 20, 1 << 34]))
    triples = np.array([(*pair, int(rng.integers(0, large))) for pair in chosen], int).ravel()
    some = [(int(i), int(j)) for i, j in rng.integers(0, n, (int(rng.integers(0, 3)), 2)) if i != j]
    follows = rng.random() < 0.3
    dominated = [(i, j, int(rng.integers(-large, large))) for i, j in dict.fromkeys(some)] if follows else []
    cuts, members = [], []
    if rng.random() < 0.3:
        inside = rng.permutation(n)[: int(rng.integers(0, n + 1))]
        cuts = [int(rng.integers(0, large)), int(rng.integers(-1, m + 1)), inside.size]
        members = [value for i in inside for value in (int(i), int(rng.choice([1, 1, -1, 2])))]
    products = []
    if rows and rng.random() < 0.4:
        products = [int(rng.integers(rows)), int(rng.integers(rows)), int(rng.integers(0, large))]
    parts = {
        "ones": [],
        "ids": rng.permutation(n),
        "diagonal": rng.integers(-large, large, n) if rng.random() < 0.7 else np.zeros(n),
        "nonnegative": triples,
        "dominated": sum(dominated, ()),
        "better": sum(some, ()) if follows else [],
        "cut": cuts,
        "cut_member": members,
        "row": products,
    }
    arrays = {f"form_{name}": np.array(part, int) for name, part in parts.items()}
    arrays |= {f"{name}_start": integers(0, array.size) for name, array in arrays.items()}
    form = np.where(rng.random(count) < 0.8, 0, -1)
    points = [on_slice(rng, n, m * grain, grain) for _ in range(int((form == 0).sum()))]
    return arrays | {
        "form_room": integers(int(rng.choice([0, 64, large * n, large * n * n + 2**20, 2**42]))),
        "order": rng.permutation(n),
        "grain": integers(grain),
        "origin": np.array(origins, int),
        "client": np.array(clients, int),
        "form": form.astype(int),
        "point": np.column_stack(points).ravel() if points else NONE,
        "curved": integers(0) if rng.random() < 0.5 else NONE,
        "price": rng.integers(0, large, rows * count) if rows and rng.random() < 0.7 else NONE,
    }


def branches(rng, n, depth, leaf):
    """A tree in preorder over counts, as the checker of exclusion reads it."""
    if depth == 0 or rng.random() < 0.3:
        return [-1, int(leaf())]
    kept = int(rng.integers(-1, n))
    number = int(rng.integers(0, 4)) if kept >= 0 else abs(int(leaf()))
    below = branches(rng, n, depth - 1, leaf)
    return [kept if kept >= 0 else -2, number, *below, *branches(rng, n, depth - 1, leaf)]


def arrays_of(kind, problem, rng, best):
    """The grid and the arrays of a certificate of a kind, drawn around what may prove something."""
    n, near = problem.n, float(best) * rng.choice([1.0, 0.9, 0.5, 1.1]) + float(rng.choice([0.0, 1e-9, -1.0]))
    near = problem.value_of(near) if isinstance(problem, QuadraticProblem) else near
    scale = float(problem.scale) or 1.0
    bits = int(rng.choice([8, 20, 50]))
    grid = int(np.clip(np.frexp(max(scale, abs(near)))[1] - bits, -1100, 800))
    goal = int(np.ldexp(near, -grid))

    def any_number():
        return rng.normal() * np.ldexp(scale, -grid)

    match kind:
        case "allocation":
            price = rng.choice(problem.costs / np.maximum(1, problem.sizes) ** 2 * rng.uniform(0.3, 9))
            return -60, {
                "price": integers(min(int(np.ldexp(price, 60)), 2**62)),
                "whole": integers(int(rng.integers(2))),
            }
        case "capping":
            return -30, {"multiplier": integers(int(rng.normal() * 2**30))}
        case "cutoff":
            exact = solve(problem).x
            return 0, {"cutoff": integers(max(1, int(exact) + int(rng.integers(-2, 3))))}
        case "exclusion":
            groups = len(set(problem.importance.tolist()))
            tree = branches(rng, groups, int(rng.integers(0, 5)), any_number)
            return grid, {
                "target": integers(goal),
                "tree": np.array(tree, dtype=object).clip(-(2**62), 2**62).astype(int),
            }
        case "optimization-error" | "total-error":
            q = rng.integers(0, 1 << 40, n)
            step = {"multiplier": integers(int(rng.random() * 2**40))} if kind == "total-error" else {}
            return -40, {"q": q, **step}
        case "schedule":
            return 0, {"level": rng.integers(-1, 6, n)}
        case "points":
            shares = on_slice(rng, n, problem.size << 20, 1 << 20)
            rows = int(rng.integers(0, 3)) if problem.is_constrained else 0
            price = rng.integers(0, 1 << bits, len(rows_of(problem)))
            return grid, {"clients": np.arange(n), "shares": shares, "price": price if rows else NONE}
        case "coverage":
            tree, rows = search(problem, rng, 0), len(problem.similarity)
            looks = rng.integers(0, 3, tree["origin"].size)
            multiplier = (
                rng.random(int(looks.sum()) * rows) * np.ldexp(np.abs(problem.similarity).max(), -grid)
            ).astype(int)
            return grid, {"goal": integers(goal), "looks": looks, "multiplier": multiplier} | {
                name: tree[name] for name in ("origin", "client")
            }
    arrays = search(problem, rng, len(rows_of(problem)))
    if kind in ("rlt", "quadratic-rlt"):
        staged = with_rlt(problem.solved_as, rng, bits=bits // 2).arrays
        arrays |= {name: array for name, array in staged.items() if name.startswith("stage_")}
    if kind == "balance":
        level = int(rng.integers(0, 1 << 8)) if rng.random() < 0.7 else 0
        arrays |= {"level": integers(level), "fine": integers(6)}
        grid, goal = int(rng.choice([-8, -4, 0])), int(rng.integers(0, 1 << 16))
    return grid, arrays | {"goal": integers(goal)}


def rows_of(problem):
    """The rows of a problem's side constraints as the package states them."""
    from solvers.certificates.exact.sides import Sides

    if isinstance(problem, BalanceProblem | CoverageProblem):
        return [None] * (2 * len(problem.quotas) + len(problem.budgets) + len(problem.conflicts))
    return Sides(problem.solved_as).limits


def optimum(problem, whole=True):
    """The best value, exactly where decisions are selections, else as `solve` finds it."""
    if isinstance(problem, AllocationProblem):
        return Fraction(solve(problem, "greedy" if whole else "kkt").objective)
    if isinstance(problem, DispersionProblem | KindDispersionProblem | CoverageProblem | QuadraticProblem):
        best = None
        for chosen in itertools.combinations(range(problem.n), problem.size):
            x = np.isin(np.arange(problem.n), chosen).astype(np.int64)
            if problem.violation(x) > problem.tolerance:
                continue
            value = exactly(problem, chosen)
            best = value if best is None else (max if problem.sense == "max" else min)(best, value)
        return best
    if isinstance(problem, BalanceProblem | ExclusionProblem):
        return Fraction(solve(problem, "brute-force").objective)
    return Fraction(solve(problem).objective)


def exactly(problem, chosen):
    """The value of a selection in fractions."""
    if isinstance(problem, QuadraticProblem):
        q = problem.quadratic
        return sum((Fraction(float(q[i, j])) for i in chosen for j in chosen), Fraction(problem.constant))
    if isinstance(problem, CoverageProblem):
        covered = sum(max(Fraction(float(row[j])) for j in chosen) for row in problem.similarity)
        return covered - sum(Fraction(float(problem.costs[j])) for j in chosen)
    of = problem.kinds if isinstance(problem, KindDispersionProblem) else range(problem.n)
    pairs = itertools.permutations(chosen, 2)
    far = sum((Fraction(float(problem.distances[of[i], of[j]])) for i, j in pairs), Fraction(0))
    return Fraction(problem.weight) * far - sum(Fraction(float(problem.costs[i])) for i in chosen)


def changed(arrays, rng):
    """The same with one to four numbers replaced."""
    arrays = {name: np.array(array, dtype=np.int64) for name, array in arrays.items()}
    names = [name for name, array in arrays.items() if array.size]
    for _ in range(int(rng.integers(1, 5))):
        array = arrays[names[int(rng.integers(len(names)))]]
        place = int(rng.integers(array.size))
        old = int(array[place])
        near = [old + 1, old - 1, -old, 2 * old, 0, 2**31, 2**53 + 1, 2**62 - 1, -(2**63)]
        array[place] = min(max(int(rng.choice(np.array(near, dtype=object))), -(2**63)), 2**63 - 1)
    return arrays


def hostile(problem, rng):
    """Fields of a problem's file that are of another type, length or range, or that no such problem has."""
    stated, header = {**parts(problem)[1], **parts(problem)[0]["scalars"]}, None
    fields = {}
    for name in rng.permutation(sorted(stated))[: int(rng.integers(1, 3))].tolist():
        value = stated[name]
        if value is None or isinstance(value, list):
            fields[name] = [{}, [], [0.5], ["x"], [[0]], [10**30], [True], 0, {"0": 1}][int(rng.integers(9))]
        elif isinstance(value, np.ndarray) and rng.random() < 0.5:
            array = np.array(value, dtype=rng.choice([np.int64, np.float64, value.dtype]))
            with contextlib.suppress(OverflowError):
                array.flat[int(rng.integers(array.size))] = rng.choice([0, -1, 2**53 + 1, 2**62 + 511, 1, 3])
            fields[name] = array
        else:
            choices = list(others(value))
            fields[name] = choices[int(rng.integers(len(choices)))]
    if rng.random() < 0.2:
        fields["clients"] = [rng.permutation(problem.n), rng.permutation(problem.n).tolist()][int(rng.integers(2))]
    if rng.random() < 0.2:
        header = {"type": str(rng.choice([kind[1] for kind in check_certificate.SCHEMAS.values()]))}
    return header, fields


def fuzz(seed, count, folder):
    """Try so many certificates; return what was counted, and the cases that are wrong."""
    rng, counts, wrong = np.random.default_rng(seed), Counter(), []
    stated, certified = Path(folder) / "problem.npz", Path(folder) / "certificate.npz"
    while counts["tried"] < count:
        kind = KINDS[int(rng.integers(len(KINDS)))]
        with contextlib.suppress(InvalidProblem, ValueError), np.errstate(all="ignore"):
            problem = problem_of(kind, rng)
            if (best := optimum(problem)) is not None:
                for _ in range(10):
                    one(kind, problem, best, rng, (stated, certified), counts, wrong)
    return counts, wrong


def one(kind, problem, best, rng, paths, counts, wrong):
    """Try one certificate, and count what both checkers say of it."""
    grid, arrays = arrays_of(kind, problem, rng, best)
    if rng.random() < 0.4:
        arrays = changed(arrays, rng)
    sign = 1 if problem.sense == "max" else -1
    claim = sign * float(rng.choice([1e300, 1e300, abs(float(best)) * 1.5 + 1.0]))
    certificate = Certificate(kind, problem_digest(problem), claim, grid, arrays)
    header, fields = hostile(problem, rng) if rng.random() < 0.5 else (None, {})
    written(paths[0], problem, header=header, **fields)
    if fields or header:
        with contextlib.suppress(Exception):
            certificate = replace(certificate, problem=digest_of(paths[0]))
    made_out(paths[1], certificate)
    counts["tried"] += 1
    counts["hostile"] += bool(fields or header)
    begun, out = time.perf_counter(), io.StringIO()
    verdicts = []
    try:
        with contextlib.redirect_stdout(out):
            if check_certificate.main([str(path) for path in paths]) == 0:
                verdicts.append(float(out.getvalue().split()[3]))
                counts["accepted by the one file"] += 1
        if not out.getvalue()[:-1].isprintable():
            wrong.append((kind, "prints what moves the cursor", out.getvalue()))
    except Exception:
        wrong.append((kind, "raw exception of the one file", traceback.format_exc()))
    received = problem
    try:
        received = load(paths[0])
        verdicts.append(check(received, Certificate.load(paths[1])))
        counts["accepted by the package"] += 1
    except (CertificateError, InvalidProblem):
        pass
    except Exception:
        wrong.append((kind, "raw exception of the package", traceback.format_exc()))
    counts["above 60 s"] += time.perf_counter() - begun > 60
    if not verdicts:
        return
    if problem_digest(received) != problem_digest(problem):
        sign = 1 if received.sense == "max" else -1
        best = optimum(received)
    if isinstance(received, AllocationProblem) and not certificate.is_of_whole:
        best = optimum(received, whole=False)
    if problem_digest(received) != certificate.problem:  # a limit that nobody can keep, a conflict of one: see below
        counts["about no problem of the package"] += 1
        return
    in_fractions = DispersionProblem | KindDispersionProblem | CoverageProblem | QuadraticProblem
    slack = 0 if isinstance(received, in_fractions) else Fraction(1, 10**11)
    for proved in verdicts:
        if best is not None and sign * (Fraction(proved) - best) < -slack * max(1, abs(best)):
            wrong.append((kind, "false bound", str((proved, float(best), fields, arrays))))
        counts["tight"] += best is not None and abs(proved - float(best)) <= 1e-9 * max(1.0, abs(float(best)))
    counts["accepted: " + kind] += 1
