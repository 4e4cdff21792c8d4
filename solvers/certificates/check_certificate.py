#!/usr/bin/env python3
r"""Check a certificate of a bound: one file, Python's standard library alone.

    python check_certificate.py problem.npz certificate.npz

prints the bound that is proved, and ends with 0; with 3 where the certificate does not prove what it claims, or what a
file holds has another form; and with 2 where a file cannot be read or there are not two. It shares no line with the
package's own checkers of searches, which use NumPy (and share their arithmetic with what writes certificates), nor with
what found the bound. It computes in whole numbers, fractions and decimals of 80 digits; where it rounds to doubles, the
error is counted. Each check says why it is sound; the argument at length is in docs/mathematics/soundness.md.
"""

import ast
import functools
import hashlib
import json
import math
import struct
import sys
import zipfile
import zlib
from bisect import bisect_left, bisect_right
from collections import defaultdict
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import accumulate, pairwise
from operator import lt, mul, sub
from types import SimpleNamespace


class Refused(Exception):
    """The certificate does not prove what it claims; the message says why."""


def need(condition, sentence):
    """Refuse with a sentence unless a condition holds."""
    if not condition:
        raise Refused(sentence)


# -- files: a zip of arrays, each of them a header and its bytes -------------------------------------------------------

LIMIT = 1 << 28  # bytes of all arrays of a file
PROBLEM, CERTIFICATE = 1 << 22, 1 << 23  # numbers of all arrays of a file
CODES = {"b1": "B", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q"}
CODES |= {"f4": "f", "f8": "d"}


def read(path, form, most):
    """Return the header of a file, and its arrays by name: type, shape, bytes, and the numbers as one list."""
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        need(sum(m.file_size for m in members) <= LIMIT, f"{path!r} unpacks to more than {LIMIT} bytes")
        need(all(m.compress_type in (0, 8) for m in members), f"{path!r} is packed in another way than NumPy's")
        for m in members:
            arrays[m.filename.removesuffix(".npy")] = found = array_of(archive.read(m), most)
            most -= math.prod(found[1])
    need(len(arrays) == len(members), f"{path!r} names an array twice")
    header = json.loads(arrays.pop("header")[3])
    if header["format"] != form:
        hint = "the problem comes first; 'fedselect instances export SOLUTION.npz PROBLEM.npz' writes a solution's"
        raise ValueError(f"{path!r} has the format {header['format']!r:.80}, not {form!r} ({hint})")
    return header, dict(sorted(arrays.items()))


def array_of(data, most):
    """Return type, shape, bytes and numbers of an array in NumPy's format, few enough; a text is one of them."""
    need(data[:6] == b"\x93NUMPY" and data[6] in (1, 2), "an array has another format")
    start = 10 if data[6] == 1 else 12
    end = start + int.from_bytes(data[8:start], "little")
    need(end <= 1 << 16, "the header of an array is too long")
    stated, content = ast.literal_eval(data[start:end].decode("latin1")), data[end:]
    kind, shape = stated["descr"], stated["shape"]
    need(all(type(k) is int and k >= 0 for k in shape), "an array has another shape")
    need(max(shape, default=0) <= most and math.prod(shape) <= most, f"{shape} are too many numbers for a file")
    need(not stated["fortran_order"] or len(shape) < 2, "an array is not kept row by row")
    if kind[:2] == "<U":
        need(shape == () and len(content) <= 1 << 26, "a text is too long")
        return kind, shape, content, content.decode("utf-32-le").rstrip("\0")
    need(kind[0] in "<|", "an array is not in little-endian order")
    return kind, shape, content, list(struct.unpack(f"<{math.prod(shape)}{CODES[kind[1:]]}", content))


def problem_of(path):
    """Return the fields of a problem's file; see `problem_as_read`."""
    header, arrays = read(path, "solvers-problem/1", PROBLEM)
    return problem_as_read(header["type"], header["scalars"], arrays)


def problem_as_read(kind, scalars, arrays):
    """Return the fields of a problem, matrices as lists of rows, with its type and its digest."""
    text = hashlib.sha256(json.dumps([kind, scalars], sort_keys=True).encode())
    fields = fields_of(kind, scalars, arrays)
    for name, (code, shape, content, values) in arrays.items():
        text.update(f"{name} {code} {shape}\n".encode() + content)
        wide = shape[-1]
        fields[name] = values if len(shape) < 2 else [values[k * wide : (k + 1) * wide] for k in range(shape[0])]
    return SimpleNamespace(type=kind, digest=text.hexdigest(), **fields)


def exact(value):
    """Return a number, or a list of numbers, as fractions."""
    return [Fraction(v) for v in value] if isinstance(value, list) else Fraction(value)


# -- the form of problems ----------------------------------------------------------------------------------------------

# Of each type its fields: the kind of number (two where either is read), the lengths of an array ("n" is the same
# number in all of them, a scalar has none), the least and the largest ("k": less than the number of that letter). Or
# the texts that a field may be. Nothing may be missing, nothing may be there besides, but for side constraints.
WHOLE, REAL = 2**63 - 1, sys.float_info.max
CHOICE = {"costs": ("f8", "n", -REAL, REAL), "clients": ("i8", "n", 0, WHOLE), "weight": ("float", "", 0, REAL)}
CHOICE |= {"size": ("int", "", 1, 1 << 24)}
ERROR = {
    "availability": ("f8", "n", 5e-324, 1),
    "variances": ("f8", "n", 5e-324, REAL),
    "offset": ("float", "", 0, REAL),
}
ERROR |= {"total": ("float", "", 5e-324, REAL), "constant": ("float", "", -REAL, REAL)}
PROBLEMS = {
    "AllocationProblem": {
        "sizes": ("i8", "n", 1, 1 << 52),
        "deviations": ("f8", "n", 0, REAL),
        "lower": ("i8", "n", 0, 1 << 52),
        "upper": ("i8", "n", 0, 1 << 52),
        "total": ("int", "", 1, WHOLE),
    },
    "BalanceProblem": {"label_counts": ("i8", "nb", 0, 10**9), "size": CHOICE["size"]},
    "CoverageProblem": {
        "similarity": ("f8 f4", "rn", -REAL, REAL),
        "costs": CHOICE["costs"],
        "size": CHOICE["size"],
    },
    "ScheduleProblem": {
        "available": ("b1", "tn", 0, 1),
        "counts": ("i8", "n", 0, 1 << 31),
        "sizes": ("i8", "t", 0, WHOLE),
        "size": CHOICE["size"],
    },
    "CappingProblem": {  # one of both is None
        "weights": ("f8", "n", 5e-324, REAL),
        "log_weights": ("f8", "n", -REAL, REAL),
        "size": CHOICE["size"],
        "floor": ("float", "", 0, 1),
    },
    "CutoffProblem": {"rates": ("f8", "n", 5e-324, 1), "horizon": ("int", "", 2, WHOLE)},
    "ExclusionProblem": {
        "importance": ("f8", "n", 5e-324, 1),
        "loss_gaps": ("f8", "n", -REAL, REAL),
        "heterogeneity": ("float", "", 0, REAL),
        "availability": ("f8", "n", 5e-324, 1),
        "correlation": ("f8", "n", -1, 1),
        "threshold": ("float", "", 0, REAL),
    },
    "OptimizationErrorProblem": ERROR,
    "TotalErrorProblem": {
        **ERROR,
        "importance": ("f8", "n", 0, 1),
        "bias": ("chi2", "tv"),
        "bias_weight": ("float", "", 0, REAL),
        "excluded": ("float", "", 0, 1),
    },
    "DispersionProblem": {"distances": ("f8 f4", "nn", 0, REAL), **CHOICE},
    "QuadraticProblem": {
        "quadratic": ("f8", "nn", -REAL, REAL),
        "sense": ("max", "min"),
        "constant": ("float", "", -REAL, REAL),
        "clients": CHOICE["clients"],
        "size": CHOICE["size"],
    },
    "PointDispersionProblem": {"points": ("f8", "nd", -REAL, REAL), "metric": ("euclidean", "hellinger"), **CHOICE},
    "KindDispersionProblem": {"distances": ("f8", "kk", 0, REAL), "kinds": ("i8", "n", 0, "k"), **CHOICE},
}
# Side constraints: a list of clients, or of such lists, or of tables, with the type of each entry.
IDS = [int]
SIDES = {
    "include": IDS,
    "exclude": IDS,
    "conflicts": [IDS],
    "quotas": [{"members": IDS, "at_least": int, "at_most": (int, type(None)), "name": str}],
    "budgets": [{"use": [float], "limit": float, "name": str}],
}
SELECTIONS = {
    "BalanceProblem",
    "CoverageProblem",
    "DispersionProblem",
    "PointDispersionProblem",
    "KindDispersionProblem",
    "QuadraticProblem",
}


def fields_of(kind, scalars, arrays):
    """Return the scalars of a problem, after every rule of its type has been tested of them and of its arrays."""
    need(isinstance(kind, str) and kind in PROBLEMS, f"problems of type {kind!r:.80} are not known")
    rules, given = PROBLEMS[kind], {**arrays, **scalars}
    sides = {name: given.pop(name) for name in SIDES if name in given and kind in SELECTIONS}
    need(len(arrays) + len(scalars) == len(given) + len(sides), "a field is both an array and none")
    need(set(given) == set(rules), f"a {kind} has the fields {', '.join(sorted(rules))}, and no other")
    for name, each in sides.items():
        need(name in scalars and each and is_like(each, SIDES[name]), f"{name} of the problem has another form")
    lengths = {}
    if kind == "CappingProblem":
        rules = {name: rule for name, rule in rules.items() if given[name] is not None}
        need(len(rules) == 3, "weights or their logarithms must be given, not both")
    for name, rule in rules.items():
        value = given[name]
        if len(rule) == 2:
            need(value in rule, f"{name} of the problem must be one of {rule}")
            continue
        types, shape, least, most = rule
        if shape:
            need(name in arrays and value[0][1:] in types.split(), f"{name} of the problem must be an array of {types}")
            need(len(value[1]) == len(shape), f"{name} of the problem must have {len(shape)} dimensions")
            for letter, length in zip(shape, value[1]):
                need(0 < length == lengths.setdefault(letter, length), f"{name} of the problem has another length")
        else:
            need(type(value).__name__ == types, f"{name} of the problem must be of type {types}")
        numbers, most = value[3] if shape else [value], lengths[most] - 1 if most in lengths else most
        need(all(map(math.isfinite, numbers)), f"{name} of the problem holds what is no number")
        need(min(numbers) >= least and max(numbers) <= most, f"{name} of the problem must lie from {least} to {most}")
        need(name != "clients" or all(map(lt, numbers, numbers[1:])), "clients of the problem must be increasing")
    return dict(scalars)


def is_like(value, form):
    """Whether a value of JSON has a form: a type, types, a list of entries of one form, or a table of forms."""
    if isinstance(form, list):
        return isinstance(value, list) and all(is_like(each, form[0]) for each in value)
    if isinstance(form, dict):
        return isinstance(value, dict) and set(value) == set(form) and all(is_like(value[k], form[k]) for k in form)
    return type(value) in form if isinstance(form, tuple) else type(value) is form


# -- the form of certificates ------------------------------------------------------------------------------------------

ANY, ENTRIES, POINT, CLIENTS = 2**63 - 1, 1 << 23, 1 << 20, 1 << 16
MULTIPLIER, ROOM = 1 << 40, 1 << 44

# Arrays: least and largest entry, length ("n": one for each client, "forms": one for each form, "stages": for each
# stage, or that of an array). With a fourth entry: one part for each form, where the name begins so, or stage, in
# groups of so many; where they begin is in the array NAME_start.
SEARCH = {
    "order": (0, "n", "n"),
    "goal": (1 - 2**62, 2**62 - 1, 1),
    "grain": (1, POINT, 1),
    "origin": (-1, 2 * ENTRIES, "form"),
    "client": (-1, "n", "form"),
    "form": (-1, "forms", None),
    "point": (0, POINT, None),
    "form_room": (0, ROOM - 1, "forms"),
    "form_ones": (0, "n", None, 1),
    "form_ids": (0, "n", None, 1),
    "form_diagonal": (1 - MULTIPLIER, MULTIPLIER - 1, None, 1),
    "form_nonnegative": (0, MULTIPLIER - 1, None, 3),
    "form_dominated": (1 - MULTIPLIER, MULTIPLIER - 1, None, 3),
    "form_better": (0, "n", None, 2),
    "form_cut": (-POINT, MULTIPLIER - 1, None, 3),
    "form_cut_member": (-(1 << 10), CLIENTS, None, 2),
    "form_row": (0, MULTIPLIER - 1, None, 3),
    "price": (0, MULTIPLIER - 1, None),
    "pool": (0, "n", None),
    "vetoed": (0, "n", None),
    "diverse": (1, CLIENTS, None),
    "curved": (0, "forms", None),
}
STAGES = {
    "stage_ids": (0, "n", None, 1),
    "stage_price": (1 - MULTIPLIER, MULTIPLIER - 1, None, 1),
    "stage_core": (0, "n", None, 1),
    "stage_factor": (-(1 << 26), 1 << 26, None, 1),
    "stage_moved": (1 - MULTIPLIER, MULTIPLIER - 1, None, 3),
    "stage_halvings": (0, 40, "stages"),
}
COVERAGE = {
    "goal": (1 - 2**62, 2**62 - 1, 1),
    "origin": (-1, 2 * ENTRIES, "client"),
    "client": (-1, ENTRIES, None),
    "looks": (0, ENTRIES, "client"),
    "multiplier": (1 - 2**62, 2**62 - 1, None),
}
POINTS = {"clients": (0, "n", "shares"), "shares": (0, POINT, None), "price": (0, MULTIPLIER - 1, None)}
# Of each kind: 1 where it maximises, else -1; the type of problem, its field with one entry for each client, the widest
# grid, and the arrays.
SCHEMAS = {
    "allocation": (-1, "AllocationProblem", "sizes", 1200, {"price": (0, ANY, 1), "whole": (0, 1, 1)}),
    "balance": (
        -1,
        "BalanceProblem",
        "label_counts",
        900,
        SEARCH | {"level": (0, MULTIPLIER - 1, None), "fine": (0, 60, "level")},
    ),
    "coverage": (1, "CoverageProblem", "similarity", 900, COVERAGE),
    "schedule": (-1, "ScheduleProblem", "counts", 0, {"level": (-1, 1 << 33, "n")}),
    "capping": (-1, "CappingProblem", "weights", 1200, {"multiplier": (-ANY, ANY, 1)}),
    "cutoff": (-1, "CutoffProblem", "rates", 0, {"cutoff": (1, 10**12, 1)}),
    "exclusion": (-1, "ExclusionProblem", "importance", 1200, {"target": (-ANY, ANY, 1), "tree": (-ANY, ANY, None)}),
    "optimization-error": (-1, "OptimizationErrorProblem", "availability", 1200, {"q": (0, ANY, "n")}),
    "total-error": (-1, "TotalErrorProblem", "availability", 1200, {"q": (0, ANY, "n"), "multiplier": (0, ANY, 1)}),
    "points": (1, "PointDispersionProblem", "points", 900, POINTS),
    "dispersion": (1, "DispersionProblem", "costs", 900, SEARCH),
    "rlt": (1, "DispersionProblem", "costs", 900, SEARCH | STAGES),
    "kinds": (1, "KindDispersionProblem", "costs", 900, SEARCH),
    "quadratic": (1, "QuadraticProblem", "quadratic", 900, SEARCH),  # as the problem says, 1 or -1
    "quadratic-rlt": (1, "QuadraticProblem", "quadratic", 900, SEARCH | STAGES),
}


def validated(kind, problem, grid, arrays):
    """Return the arrays, or lists of the parts of one, after every rule of the kind's schema has been tested."""
    _, about, field, widest, rules = SCHEMAS[kind]
    need(problem.type == about, f"a certificate of kind {kind!r} is about a {about}, not about a {problem.type}")
    need(type(grid) is int and abs(grid) <= widest, f"the grid must be a whole number up to {widest}; got {grid!r:.40}")
    rules = rules | {f"{name}_start": (0, ENTRIES, None) for name, rule in rules.items() if rule[3:]}
    if "form_cut" in rules and not any(name.startswith("form_cut") for name in arrays):  # no form has any
        none = [0] * len(arrays.get("form_ids_start", ()))
        arrays = arrays | {"form_cut": [], "form_cut_member": [], "form_cut_start": none, "form_cut_member_start": none}
    if "price" in rules:  # left out where no node, or no form, has one
        arrays = {"price": [], **arrays}
    if "pool" in rules:  # left out where nothing is listed
        arrays = {"pool": [], "vetoed": [], "diverse": [], "curved": [], **arrays}
    if "form_row" in rules and not {"form_row", "form_row_start"} & set(arrays):
        arrays = arrays | {"form_row": [], "form_row_start": [0] * len(arrays.get("form_ids_start", ()))}
    need(set(arrays) == set(rules), f"the arrays must be {', '.join(sorted(rules))}")
    size = {name: len(values) for name, values in arrays.items()}
    size |= {
        "n": len(getattr(problem, field) or problem.log_weights),
        "forms": max(size.get("form_ids_start", 1) - 1, 0),
        "stages": max(size.get("stage_ids_start", 1) - 1, 0),
    }
    found = dict(arrays)
    for name, (least, most, length, *group) in rules.items():
        values, most, length = arrays[name], size[most] - 1 if most in size else most, size.get(length, length)
        need(len(values) <= ENTRIES and all(type(v) is int for v in values), f"{name} must hold few whole numbers")
        need(not values or (min(values) >= least and max(values) <= most), f"{name} must lie from {least} to {most}")
        need(length is None or len(values) == length, f"{name} must have {length} entries")
        for step in group:
            starts = arrays[f"{name}_start"]
            count = size[name.partition("_")[0] + "s"]
            need(len(starts) == count + 1, f"{name} must have one part for each form, or stage")
            need(starts[0] == 0 and starts[-1] == len(values), f"the parts of {name} must be all of it")
            parts = list(pairwise(starts))
            need(all(a <= b and (b - a) % step == 0 for a, b in parts), f"the parts of {name} do not follow each other")
            like = {"form_diagonal": "form_ids", "stage_price": "stage_ids"}.get(name, name)
            need(starts == arrays[f"{like}_start"], f"the parts of {name} must be as long as those of {like}")
            found[name] = [values[a:b] for a, b in parts]
    return SimpleNamespace(grid=grid, **found)


# -- the work ----------------------------------------------------------------------------------------------------------

# Steps that a check may take, some minutes of them; numbers of all forms' matrices, or of the tangents above a node.
WORK, NUMBERS = 1 << 31, 1 << 24


def afford(steps, what):
    """Refuse what would take more steps than are taken."""
    need(steps <= WORK, f"to read {what} takes {steps} steps; at most {WORK} are taken")


def afford_all(kind, problem, given):
    """Refuse a certificate, before anything is computed, whose check could take more than so many steps.

    A step is a product of two numbers, or less; of fractions with many denominators a sum grows with each.
    """
    known = vars(given)
    n, forms = len(getattr(problem, SCHEMAS[kind][2]) or problem.log_weights), known.get("form_ids", [])

    def entries(name):
        return sum(map(len, known[name]))

    if kind in ("allocation", "total-error"):
        afford(n**3 // 64, f"{n} fractions")
    elif kind in ("capping", "cutoff", "optimization-error"):
        afford(n << 10, f"{n} decimals")
    elif kind == "exclusion":
        groups = len(set(problem.importance))
        afford(len(given.tree) * (groups + 64) << 5, f"a tree of {len(given.tree)} numbers over {groups} groups")
    elif kind == "points":
        shares, wide = len(given.shares), len(problem.points[0])
        afford(n * (shares + 1) * wide << 3, f"{n} x {shares} distances of {wide} coordinates")
    elif kind == "coverage":
        rows, n, looks = n, len(problem.similarity[0]), sum(given.looks)
        afford(n * (rows * (looks + 1) + 4 * len(given.origin)), f"{looks} looks at {rows} x {n} similarities")
    elif "form_ids" in known:
        need(sum(len(ids) ** 2 for ids in forms) <= NUMBERS, f"the forms have more than {NUMBERS} numbers")
        if kind == "balance":
            afford(n * n * (len(problem.label_counts[0]) + 64), f"{n} clients' label counts")
        sizes, pairs = list(map(len, forms)), entries("form_better") + entries("form_dominated")
        steps = sum(k**3 // 6 + k**2 * (1 + len(row) // 3) for k, row in zip(sizes, given.form_row))
        steps += sum(sizes[number] ** 3 // 16 for number in set(given.curved))  # packed: some numbers at a step
        steps += sum(sizes[number] ** 2 for number in given.form if number >= 0) + len(given.origin) * (n + 4096)
        steps += 16 * n * (n + pairs) + 64 * entries("form_cut_member") + n * len(given.price)
        steps += n * sum(16 * n + len(factor) for factor in known.get("stage_factor", []))
        many = len(given.pool) + len(given.vetoed)
        steps += many * (problem.size + 64 + (len(given.origin) if given.diverse else 0))
        afford(steps, f"{len(given.origin)} nodes with {len(forms)} forms of {n} clients")


# -- convex families ---------------------------------------------------------------------------------------------------


def check_allocation(problem, unit, given):
    """For a price p >= 0 of a client: the sum of min over s of (c / s + p s), less p times the total, less c / N.

    Where ``whole`` is 1, s are whole numbers: then real ones, which the problem allows, too, may be better.
    """
    (price,), (whole,) = given.price, given.whole
    need(sum(problem.lower) <= problem.total <= sum(problem.upper), "the groups have no room for the total")
    limits = zip(problem.lower, problem.upper, problem.sizes)
    need(all(least <= most <= size for least, most, size in limits), "a group has no room")
    rate, here = price * unit, [k for k, most in enumerate(problem.upper) if most > 0]
    everybody, bound = sum(problem.sizes[k] for k in here), -price * unit * problem.total
    for k in here:
        size, least, most = problem.sizes[k], problem.lower[k], problem.upper[k]
        cost = (size * Fraction(problem.deviations[k]) / everybody) ** 2
        if cost == 0:
            best = rate * least
        elif whole:  # convex: smallest at a neighbour of the root of c / p, or at the end next to it
            low, root = max(least, 1), math.isqrt(int(cost / rate)) if rate else most
            need(low <= most, "an allocation has no room")
            best = min(cost / s + rate * s for s in {min(max(s, low), most) for s in (root, root + 1)})
        else:  # c / s >= 2 c / r - c s / r^2 for any r > 0, here near the best s; what is left is linear in s
            root = Fraction(math.isqrt(int(cost / rate * 4**40)) + 1, 2**40) if rate else Fraction(most)
            touch = min(max(root, Fraction(least)), Fraction(most))
            slope = rate - cost / touch**2
            best = 2 * cost / touch + slope * (least if slope > 0 else most)
        bound += best - cost / size
    return bound


def check_exclusion(problem, unit, given):
    """No set S is worth less than rho where sum of a (e - rho) over S, and G a(S) (T - a(S))^2, is never negative.

    Of equally important clients those of least gap e are the worst case: a set is a number of clients of each group.
    The two sides of a branch cover all sets whatever number stands there, and any slope of a leaf is a bound.
    """
    gaps, gamma = {}, exact(problem.heterogeneity)
    for a, e in zip(exact(problem.importance), exact(problem.loss_gaps), strict=True):
        gaps.setdefault(a, []).append(e)
    weights = sorted(gaps)
    groups = [(a, sorted(gaps[a]), [0, *accumulate(sorted(gaps[a]))]) for a in weights]
    total, rho = sum(a * len(each) for a, each, _ in groups), given.target[0] * unit
    # A box: fewest and most kept of each group, and in the end, at -1, least and most importance. What is still to be
    # done is to look at the box (None), or to set a bound of it: for a side, or as it was before.
    low, high = [*[0] * len(groups), Fraction(0)], [*(len(each) for _, each, _ in groups), total]
    codes, stack = iter(given.tree), [None]
    while stack:
        if (change := stack.pop()) is not None:
            bounds, place, value = change
            bounds[place] = value
            continue
        code, number = next(codes, None), next(codes, None)
        need(number is not None, "the tree ends: a branch is missing")
        if code != -1:
            need(code == -2 or 0 <= code < len(groups), "a code of the tree means nothing")
            place, fewer, more = (code, number, number + 1) if code >= 0 else (-1, number * unit, number * unit)
            stack += [(low, place, low[place]), None, (low, place, max(low[place], more))]
            stack += [(high, place, high[place]), None, (high, place, min(high[place], fewer))]
        else:
            least, most = max(low[-1], sum(map(mul, weights, low))), min(high[-1], sum(map(mul, weights, high)))
            if least > most or any(k > j for k, j in zip(low, high)):
                continue
            slope = number * unit
            bound = cubic_floor(gamma, total, slope, least, most)
            for (a, each, sums), k, j in zip(groups, low, high):  # those worth keeping, or as many as must be
                kept = min(max(bisect_left(each, rho - slope), k), j)
                bound += a * (sums[kept] - (rho - slope) * kept)
            need(bound >= 0, "the slope of a leaf leaves it below zero")
    need(next(codes, None) is None, "numbers are left over after the tree")
    return rho


def cubic_floor(gamma, total, slope, least, most):
    """Bound gamma a (total - a)^2 - slope a below on an interval: concave up to 2/3 total, then above its tangents."""

    def value(a):
        return gamma * a * (total - a) ** 2 - slope * a

    ends, left = min(value(least), value(most)), max(least, 2 * total / 3)
    if most <= left or gamma == 0:
        return ends
    inside = total**2 + 3 * slope / gamma
    touch = min(max((2 * total + Fraction(math.isqrt(max(int(inside * 4**40), 0)), 2**40)) / 3, left), most)
    tilt = gamma * (total - touch) * (total - 3 * touch) - slope
    return min(ends, value(left), value(touch) + min(tilt * (left - touch), tilt * (most - touch)))


def check_optimization_error(problem, unit, given):
    """The ratio is convex and homogeneous in the biased importance p: its gradient d bounds it by d p, hence min d."""
    return min(gradient(problem, given)) + exact(problem.constant)


def gradient(problem, given):
    """Return the gradient of the ratio of Theorem 2 at the certificate's weights, whatever their sum."""
    total, v, pi = exact(problem.total), exact(problem.variances), exact(problem.availability)
    need(sum(given.q) > 0, "the weights must not all be zero")
    q = [total * k / sum(given.q) for k in given.q]
    rest = (exact(problem.offset) - sum(a * b * c * c for a, b, c in zip(v, pi, q, strict=True)) / 2) / total
    return [a * c + rest / b for a, b, c in zip(v, pi, q)]


def check_total_error(problem, unit, given):
    """The dual of min d p + w bias(alpha, p) over distributions p, at any multiplier of the right sign."""
    d, alpha, w = gradient(problem, given), exact(problem.importance), exact(problem.bias_weight)
    need(abs(sum(alpha) + exact(problem.excluded) - 1) <= Fraction(1, 10**9), "importance does not sum to 1")
    step, constant, excluded = given.multiplier[0] * unit, exact(problem.constant), exact(problem.excluded)
    if w == 0:
        return min(d) + constant
    if problem.bias == "tv":  # x^2 >= 2 t x - t^2
        nu, price = min(d) + w * step, w * step
        moved = sum(a * min(price, each - nu) for a, each in zip(alpha, d))
        return nu + moved + price * excluded - w * step**2 + constant
    need(excluded == 0 < min(alpha), "importance that is excluded has no such bias")
    nu = min(d) - step
    squares = [w * (each - nu) for each in d]
    roots = [Fraction(math.isqrt(x.numerator * 4**120 // x.denominator), 2**120) for x in squares]  # rounded down
    return nu + 2 * sum(map(mul, alpha, roots)) - 2 * w * sum(alpha) + w + constant


# Decimals of 80 digits. What a sum of them is certainly not below: less 1e-40 of all quantities before any cancel;
# rounding takes less than 1e-60 of it, for exponents up to 1e8 and powers up to 1e12.
DIGITS, PART = Context(prec=80, Emax=10**9, Emin=-(10**9)), Decimal("1e-40")


def below(quantities):
    """Return a number certainly not above the sum of what these decimals stand for."""
    return Fraction(sum(quantities)) - Fraction(PART * sum(map(abs, quantities)))


def check_capping(problem, unit, given):
    """Sum of min over r of r log(r / v) - r + v - mu r, plus mu times the mass: for any mu, and never negative."""
    logs, floor = problem.log_weights, exact(problem.floor)
    mu, raw = given.multiplier[0] * unit, problem.weights if logs is None else logs
    mass = problem.size - len(raw) * floor
    if mass <= Fraction(2, 10**12) * problem.size:
        return Fraction(0)
    spread = 0 if logs is None else max(raw) - min(raw)
    need(abs(mu) <= 10**8 and spread <= 10**8, "exponents must lie between -10^8 and 10^8")
    with localcontext(DIGITS):
        mu, mass = (Decimal(x.numerator) / Decimal(x.denominator) for x in (mu, mass))
        cap, top = 1 - Decimal(problem.floor), Decimal(max(raw))
        weights = [Decimal(w) if logs is None else (Decimal(w) - top).exp() for w in raw]
        growth, share, quantities = mu.exp(), mass / sum(weights), [mu * mass]
        for v in (share * weight for weight in weights):
            if v * growth > cap * (1 + PART):  # the smallest value is at the cap
                quantities += [cap * (cap / v).ln(), v, -cap, -mu * cap]
            else:  # the smallest value for any r at all
                quantities += [v, -v * growth]
        return max(Fraction(0), below(quantities))


def check_cutoff(problem, unit, given):
    """K ln T / T + mean (1 - p)^2K is convex in K: the value at a K whose neighbours are certainly no better."""
    (cutoff,), rates, horizon = given.cutoff, problem.rates, problem.horizon

    def power(base, k):  # by squaring, which rounds once for each step
        half = power(base * base, k // 2) if k else Decimal(1)
        return half * base if k % 2 else half

    def quantities(k):
        return [k * Decimal(horizon).ln() / horizon, *(power(1 - Decimal(p), 2 * k) / len(rates) for p in rates)]

    with localcontext(DIGITS):
        here = quantities(cutoff)
        above = Fraction(sum(here)) + Fraction(PART * sum(here))
        for other in (cutoff - 1, cutoff + 1):
            need(other < 1 or below(quantities(other)) >= above, f"the cutoff {other} is no worse than {cutoff}")
        return below(here)


# -- dispersion --------------------------------------------------------------------------------------------------------


def check_points(problem, unit, given):
    """Euclidean distances are of negative type, so that the objective is concave where shares sum to m: its tangent."""
    m, weight, share = problem.size, exact(problem.weight), dict(zip(given.clients, given.shares))
    need(problem.metric == "euclidean" and m <= len(problem.points), "only Euclidean distances")
    is_on_slice = len(share) == len(given.clients) and sum(given.shares) == m * POINT
    need(is_on_slice, "the point must name different clients, whose shares sum to the size")
    fine, digits = max(Fraction(x).denominator for row in problem.points for x in row), 24
    places, above, inner = [[int(Fraction(x) * fine) for x in row] for row in problem.points], [], 0
    for i, here in enumerate(places):
        squares = ((part, sum((a - b) ** 2 for a, b in zip(here, places[j]))) for j, part in share.items())
        reach = sum(part * math.isqrt(square << 2 * digits) for part, square in squares)  # rounded down, by less than 1
        inner += share.get(i, 0) * reach
        above.append(reach + m * POINT)
    scale = 2 * weight / fine / 2**digits / POINT
    rules = Sides(problem, len(places), m, SimpleNamespace(price=given.price, origin=[-1]))
    paid, charge = rules.charge((0, [0] * len(places)), 0, 1)
    values = [scale * reach - Fraction(c) + unit * x for reach, c, x in zip(above, problem.costs, charge, strict=True)]
    free = sorted((x for x, known in zip(values, rules.start) if known == FREE), reverse=True)
    ones, missing = [x for x, known in zip(values, rules.start) if known == ONE], m - rules.start.count(ONE)
    need(0 <= missing <= len(free), "include and exclude leave no selection")
    return sum(ones + free[:missing], unit * paid) - scale / 2 * Fraction(inner, POINT)


FREE, ONE, ZERO = 0, 1, 2


class Data:
    """A dispersion problem in multiples of the unit, and by how much a selection's value can be off."""

    def __init__(self, problem, unit, grid, order):
        h, c, m, w = problem.distances, problem.costs, problem.size, problem.weight
        self.n, self.m = len(h), m
        need(self.n <= CLIENTS and m <= self.n, "the problem is out of range")
        need(all(h[i][i] == 0 for i in range(self.n)), "distances must be zero on the diagonal")
        need(all(row == list(column) for row, column in zip(h, zip(*h))), "distances must be symmetric")
        need(sorted(order) == list(range(self.n)), "the order does not name each client once")
        largest = Fraction(w) * Fraction(max(map(max, h))) / unit
        biggest = max(largest, *(abs(Fraction(x)) / unit for x in (min(c), max(c))))
        need(biggest < min(1 << 40, (1 << 61) // m**2), "the grid is too fine for the problem's numbers")
        # The doubles nearest to w h, off by a part of 2^-53 or by 2^-1075, rounded to the grid; each is exact where
        # scaling back gives the very number.
        products = [[w * x for x in row] for row in h]
        self.pair = [[round(math.ldexp(x, -grid)) for x in row] for row in products]
        self.cost = [round(math.ldexp(x, -grid)) for x in c]
        entries = ((k, p, x) for rows in zip(self.pair, products, h) for k, p, x in zip(*rows))
        lossless = all(x == 0 or (p >= 2.0**-1000 and k * unit == p) for k, p, x in entries)
        lossless = largest == 0 or (lossless and math.frexp(w)[0] == 0.5)
        error = 0 if lossless else m * (m - 1) * (Fraction(1, 2) + largest / 2**52 + Fraction(1, 2**100))
        self.error = (error + (0 if all(k * unit == x for k, x in zip(self.cost, c)) else Fraction(m, 2))) * unit
        self.order, self.w, self.c, self.never = order, Fraction(w), exact(c), functools.cache(self.is_no_loss)
        fine = max(x.as_integer_ratio()[1] for x in {x for row in h for x in row})
        self.row = functools.cache(lambda i: [int(x * fine) for x in exact(h[i])])
        self.fine = fine

    def value(self, chosen):
        """Return the value of a selection of the rounded problem."""
        return sum(self.pair[i][j] for i in chosen for j in chosen) - sum(self.cost[i] for i in chosen)

    def require_exchange(self, i, j, ones, free):
        """Refuse unless exchanging j for i beside ``ones`` and any others of ``free`` is never a loss.

        A tie must lower the order, so that the best selection that is first in it holds i whenever it holds j.
        """
        fine = self.never(i, j, (), range(self.n)) or self.is_no_loss(i, j, ones, free)
        need(fine, f"exchanging client {j} for {i} can be a loss")

    def is_no_loss(self, i, j, ones, free):
        """Whether the least gain of an exchange is positive, or 0 with i before j in the order."""
        gains = list(map(sub, self.row(i), self.row(j)))
        others = sorted(gains[k] for k in free if k not in (i, j))[: max(self.m - 1 - len(ones), 0)]
        least = 2 * self.w * Fraction(sum(gains[k] for k in ones) + sum(others), self.fine) + self.c[j] - self.c[i]
        return least > 0 or (least == 0 and self.order[i] < self.order[j])

    def only(self, state):
        """Return the only selection that is left, in rising order."""
        ones = tuple(i for i, known in enumerate(state) if known == ONE)
        return ones if len(ones) == self.m else tuple(i for i, known in enumerate(state) if known != ZERO)

    def settled(self, state):
        """Return the value of the only selection left, -inf where there is none; None where there are several."""
        if state is None:
            return -math.inf
        ones, free = ([i for i, known in enumerate(state) if known == each] for each in (ONE, FREE))
        missing = self.m - len(ones)
        if 0 < missing < len(free):
            return None
        return -math.inf if missing < 0 or missing > len(free) else self.value(ones + (free if missing else []))


class Sides:
    """Side constraints as rows a s <= b of whole numbers that every selection keeps, in multiples of a unit.

    Uses of a budget are rounded down and its limit is rounded up, after a part of 2^-29 that the rounding of decimal
    fractions may take: more than that is not feasible.
    """

    def __init__(self, problem, n, m, given):
        known = vars(problem)
        place = {client: k for k, client in enumerate(known.get("clients", range(n)))}
        self.start, self.rows, self.m, self.steps = bytearray(n), [], m, 0
        most = 2 * len(known.get("quotas", [])) + len(known.get("budgets", [])) + len(known.get("conflicts", []))
        need(n * most <= NUMBERS, f"the side constraints have more than {NUMBERS} numbers")
        need(len(place) == n and all(type(client) is int for client in place), "the clients' ids are out of range")

        def among(ids):
            need(len(set(ids)) == len(ids) and set(ids) <= set(place), "a constraint names other clients, or one twice")
            return {place[client] for client in ids}

        def ones(ids, sign=1):
            members = among(ids)
            return [sign * (k in members) for k in range(n)]

        for name, value in (("include", ONE), ("exclude", ZERO)):
            for k in among(known.get(name, [])):
                need(self.start[k] == FREE, "a client is both included and excluded")
                self.start[k] = value
        for quota in known.get("quotas", []):
            least, most = quota["at_least"], quota["at_most"]
            need(type(least) is int and type(most) in (int, type(None)), "a quota is no whole number")
            if most is not None:
                self.rows.append((ones(quota["members"]), most, 1))
            if least > 0:
                self.rows.append((ones(quota["members"], -1), -least, 1))
        for budget in known.get("budgets", []):
            use, limit, unit = exact(budget["use"]), exact(budget["limit"]) * (1 + Fraction(1, 2**29)), 2**40
            need(len(use) == n and min(use) >= 0, "a budget has not one use for each client, or a negative one")
            if most := max(use):
                whole = min(math.ceil(limit * unit / most), m * unit)  # more than that is no limit
                self.rows.append(([int(x * unit / most) for x in use], whole, unit))
        self.rows += [(ones(group), 1, 1) for group in known.get("conflicts", [])]
        self.any, self.prices, count = bool(self.rows) or any(self.start), given.price, len(self.rows)
        need(len(self.prices) in (0, count * len(given.origin)), "there is not one price for each row at each node")

    def charge(self, tangent, node, grain):
        """Add p (b - a s), never negative for p >= 0, to a node's tangent; rounded to where that stays so."""
        base, slope = tangent
        slope, prices = list(slope), self.prices[node * len(self.rows) : (node + 1) * len(self.rows)]
        for (row, limit, unit), price in zip(self.rows, prices):
            base += -(-price * limit // unit) * grain**2
            for i, a in enumerate(row):
                slope[i] -= price * a // unit * grain
        return base, slope

    def products(self, triples, ones, ids):
        """Return constant, linear and quadratic terms of products of what rows leave, none of them negative.

        For t = r the other factor is what row r comes to beyond the least of any selection. Rounded up, times products
        of clients, which are not negative either, a term only rises.
        """
        constant, linear, matrix = 0, [0] * len(ids), [[0] * len(ids) for _ in ids]
        need(sum(price for _, _, price in triples) < 1 << 40, "the multipliers of rows' products are too large in sum")
        for r, t, price in triples:
            need(max(r, t) < len(self.rows), "a product is of a row that there is not")
            (row, b, unit), (column, d, other) = self.rows[r], self.rows[t]
            if r == t:
                column, d = [-a for a in row], -sum(sorted(row)[: self.m])
            need(abs(b) <= self.m * unit and abs(d) <= self.m * other, "a product is of a row whose limit is no limit")
            b, d, unit = b - sum(row[i] for i in ones), d - sum(column[i] for i in ones), unit * other
            constant += -(-price * b * d // unit)
            for k, i in enumerate(ids):
                linear[k] -= price * (d * row[i] + b * column[i]) // unit
                for j, h in enumerate(ids):
                    matrix[k][j] -= -price * (row[i] * column[h] + row[h] * column[i]) // (2 * unit)
        return constant, linear, matrix

    def keep(self, state):
        """Fix whom no selection of a state can be with, or without; None where a row leaves none.

        A row is least with the chosen and the smallest of the free ones, and one client more or less costs an exchange.
        """
        state, busy = bytearray(state), self.any
        while busy:
            busy = False
            for row, limit, _ in self.rows:
                self.steps += 4 * len(row)
                afford(self.steps, "side constraints")
                free = sorted((row[i], i) for i, known in enumerate(state) if known == FREE)
                missing = self.m - state.count(ONE)
                if not 0 <= missing <= len(free):
                    return None
                used = sum(a for a, known in zip(row, state) if known == ONE)
                spare = limit - used - sum(a for a, _ in free[:missing])
                if spare < 0:
                    return None
                for k, (a, i) in enumerate(free):
                    if k < missing < len(free) and free[missing][0] - a > spare:
                        state[i], busy = ONE, True
                    elif k >= missing > 0 and a - free[missing - 1][0] > spare:
                        state[i], busy = ZERO, True
                if busy:
                    break
        return state


class Listed:
    """Selections that the goal is not about: the members of a pool, best first, and those that a veto has refused.

    Of every other selection the search must say that it is worth no more than the goal; or, where each member has d
    clients that are not in a better one, that it shares all but fewer than d with a member that is worth no less.
    """

    def __init__(self, data, rules, given, unit):
        m, self.apart = data.m, (given.diverse or [1])[0]
        need(len(given.diverse) <= 1, "members differ in more than one number of clients")
        need(len(given.pool) % m == len(given.vetoed) % m == 0, f"listed selections do not have {m} clients each")
        self.pool, refused = ([tuple(x[k : k + m]) for k in range(0, len(x), m)] for x in (given.pool, given.vetoed))
        both = [*self.pool, *refused]
        self.values, self.refused, self.any = list(map(data.value, self.pool)), set(refused), bool(both)
        self.most = list(map(data.value, both))
        need(all(i < j for chosen in both for i, j in pairwise(chosen)), "listed clients are not in rising order")
        need(len(set(both)) == len(both), "a selection is listed twice")
        for chosen in both:
            among = set(chosen)
            kept = all(known == FREE or (known == ONE) == (i in among) for i, known in enumerate(rules.start))
            kept = kept and all(sum(row[i] for i in chosen) <= limit for row, limit, _ in rules.rows)
            need(kept, f"the listed selection {list(chosen)} does not keep the side constraints")
        spare = 2 * data.error / unit
        need(all(a + spare >= b for a, b in pairwise(self.values)), "the pool is not listed best first")
        if self.apart > 1:
            ends = ((one, other) for k, one in enumerate(self.pool) for other in self.pool[:k])
            need(all(self.differ(*each) >= self.apart for each in ends), "members differ in too few clients")
        self.worth = dict(zip(self.pool, self.values))

    @staticmethod
    def differ(one, other):
        """Return how many clients of one selection are not in another."""
        return len(set(one) - set(other))

    def excepts(self, chosen, value):
        """Whether the goal is not about a selection."""
        if chosen in self.refused or chosen in self.worth:
            return True
        near = (v for other, v in self.worth.items() if self.apart > 1 and self.differ(chosen, other) < self.apart)
        return any(value <= v for v in near)

    def best(self, best, value, goal, chosen):
        """Return the best value of selections that are not listed, after one more."""
        if value <= goal or not self.any:
            return max(best, value)
        need(self.excepts(chosen, value), f"{list(chosen)} is worth more than the goal, and is not listed")
        return best


class Form:
    """Multipliers that leave no selection worth less, and make the objective concave where the shares' sum is fixed."""

    def __init__(self, data, given, number, rules=None):
        ones, ids, diagonal, room = (getattr(given, f"form_{x}")[number] for x in ("ones", "ids", "diagonal", "room"))
        n, self.ones, self.ids, self.open = len(ids), ones, ids, data.m - len(ones)
        need(len({*ones, *ids}) == len(ones) + n and len(diagonal) == n, "a form names a client twice")
        self.matrix = [[data.pair[i][j] for j in ids] for i in ids]
        self.linear = [2 * sum(data.pair[i][j] for j in ones) - data.cost[i] for i in ids]
        self.constant, self.raised, seen = data.value(ones), {}, set()
        for triples, sign in ((given.form_nonnegative, 1), (given.form_dominated, -1)):
            for i, j, half in zip(*[iter(triples[number])] * 3):
                need(min(i, j) >= 0 and max(i, j) < n and i != j, "a multiplier is not of two open clients")
                key = (sign, *(sorted((i, j)) if sign > 0 else (i, j)))
                need(key not in seen and (sign < 0 or half >= 0), "a multiplier is negative, or given twice")
                seen.add(key)
                self.matrix[i][j] += sign * half
                self.matrix[j][i] += sign * half
                if sign > 0:  # of s_i s_j, which is never negative
                    self.raised[i, j] = self.raised[j, i] = half
                else:  # of s_j - s_i s_j, which is zero where i is chosen whenever j is
                    self.linear[j] += 2 * half
                    data.require_exchange(ids[i], ids[j], ones, ids)
        self.add_cuts(list(zip(*[iter(given.form_cut[number])] * 3)), zip(*[iter(given.form_cut_member[number])] * 2))
        if given.form_row[number]:
            constant, linear, matrix = rules.products(list(zip(*[iter(given.form_row[number])] * 3)), ones, ids)
            self.constant, self.linear = self.constant + constant, [x + y for x, y in zip(self.linear, linear)]
            self.matrix = [[x + y for x, y in zip(*both)] for both in zip(self.matrix, matrix)]
        self.follow = {}  # (client, state): clients that then have the same
        self.is_plain = not given.form_better[number] and not given.form_dominated[number]
        for i, j in zip(*[iter(given.form_better[number])] * 2):
            need(max(i, j) < n, "a pair is not of two open clients")
            data.require_exchange(ids[i], ids[j], ones, ids)
            self.follow.setdefault((ids[j], ONE), []).append(ids[i])
            self.follow.setdefault((ids[i], ZERO), []).append(ids[j])
        means = [Fraction(sum(row) - d, max(n, 1)) for row, d in zip(self.matrix, diagonal)]
        u = [round(mean - sum(means) / (2 * n)) for mean in means]
        t = max([0, *(abs(x) for row in self.matrix for x in row), *map(abs, diagonal)]) // max(n, 1)
        for i in range(n):  # of s_i - s_i^2, which is zero
            self.matrix[i][i] -= diagonal[i] + room
            self.linear[i] += diagonal[i] + room
        # u 1' + 1 u' + t 11' vanishes where shares sum to 0: less the matrix it must have no negative eigenvalue.
        a = [[u[i] + u[j] + t - self.matrix[i][j] for j in range(i + 1)] for i in range(n)]
        self.bends = bends(a) if number in given.curved and n > 1 else None
        is_concave = n < 2 or self.bends is not None or cholesky(a, 40, 1) is not None
        need(is_concave, "the multipliers do not make the objective concave")

    def add_cuts(self, cuts, members):
        """Add t (b's - k) (b's - k - 1) for each cut: as b's is a whole number it is never negative."""
        curved, slopes, members = defaultdict(int), defaultdict(int), list(members)
        need(all(t >= 0 and 0 <= count <= 64 for t, _, count in cuts), "a cut is negative, or has too many members")
        need(sum(count for _, _, count in cuts) == len(members), "a cut has other members than it states")
        need(sum(count**2 for _, _, count in cuts) <= NUMBERS // 4, "the cuts of a form have too many pairs of members")
        need(all(0 <= i < len(self.ids) and abs(b) <= 1 << 10 for i, b in members), "a cut is not of open clients")
        for t, k, count in cuts:
            own, members = members[:count], members[count:]
            self.constant += t * k * (k + 1)
            for i, b in own:
                slopes[i] -= t * (2 * k + 1) * b
                for j, c in own:
                    curved[i, j] += t * b * c
        need(all(abs(x) < 1 << 42 for x in curved.values()), "the multipliers of cuts are too large")
        need(all(abs(x) < 1 << 60 for x in slopes.values()), "the multipliers of cuts are too large")
        for (i, j), value in curved.items():
            self.matrix[i][j] += value
        for i, value in slopes.items():
            self.linear[i] += value

    def tangent(self, point, state, grain):
        """Return base and gradient of a tangent, times grain^2 and grain: of a concave function it is a bound.

        Products with those chosen for good whose share is 1 are linear: what raised them can be taken off again.
        """
        ids, here = self.ids, {*self.ids, *self.ones}
        need(max(point, default=0) <= grain and sum(point) == self.open * grain, "a point is not on the slice")
        need(all(state[i] == ONE for i in self.ones), "a form takes for chosen what is not")
        need(all(i in here or state[i] == ZERO for i in range(len(state))), "a form leaves out what is open")
        towards, slope = [sum(map(mul, row, point)) for row in self.matrix], [0] * len(state)
        base = self.constant * grain**2 - sum(map(mul, point, towards))
        for k, i in enumerate(ids):
            slope[i] = grain * self.linear[k] + 2 * towards[k]
        done = {k for k, i in enumerate(ids) if state[i] == ONE and point[k] == grain}
        for (j, k), half in self.raised.items():
            if j in done and k in done:
                base -= half * grain**2
            elif j in done:
                slope[ids[k]] -= 2 * half * grain
        return base, slope

    def fix(self, most, tangent, ends, state, point, goal, grain):
        """Fix the clients of whom a tangent closes one side; False where that leaves nothing.

        With another side the tangent loses what lies between the gradient's entries. Of a curved form the objective is
        the tangent less z'Az, z = s - y, whose parts sum to 2 in absolute value for each open place: with X of `bends`
        (|z_i| - e)^2 / |X_i|^2 is no more than that, where the residual of X gives e. In multiples of 1 / grain^2.
        """
        (lower, upper), slope, spare = ends, tangent[1], most - goal * grain**2
        norms, steepest, bits, digits = self.bends or ([0] * len(self.ids), 0, 0, 0)
        error = (self.open * grain * steepest >> digits) + 1

        def bend(away, norm):
            return (max(away - error, 0) ** 2 << 2 * (digits - bits)) // norm if norm else 0

        for i, share, norm in zip(self.ids, point, norms):
            if state[i] == FREE:
                top = slope[i] >= lower
                without = grain * (slope[i] - upper if top else 0) + bend(share, norm)
                having = grain * (0 if top else lower - slope[i]) + bend(grain - share, norm)
                if min(without, having) >= spare:
                    return False
                if max(without, having) >= spare:
                    state[i] = ONE if without >= spare else ZERO
        return True

    def imply(self, state, fresh):
        """Fix what follows from clients just fixed, or say that it contradicts."""
        while fresh:
            client = fresh.pop()
            for other in self.follow.get((client, state[client]), ()):
                if state[other] == FREE:
                    state[other] = state[client]
                    fresh.append(other)
                elif state[other] != state[client]:
                    return False
        return True


def packed(values, wide):
    """Return the whole number that has these at a distance of so many bytes: its multiples are those of all at once."""
    half = 1 << 8 * wide - 1
    joined = b"".join([(value + half).to_bytes(wide, "little") for value in values])
    return int.from_bytes(joined, "little") - half * repeated(len(values), wide)


def unpacked(number, count, wide):
    """Return so many values that a number has at a distance of so many bytes, each less than half of these."""
    half = 1 << 8 * wide - 1
    joined = (number + half * repeated(count, wide)).to_bytes(count * wide, "little")
    return [int.from_bytes(joined[k : k + wide], "little") - half for k in range(0, count * wide, wide)]


@functools.cache
def repeated(count, wide):
    """Return so many ones at a distance of so many bytes."""
    return ((1 << 8 * wide * count) - 1) // ((1 << 8 * wide) - 1)


def cholesky(rows, bits, lift):
    """Return L in multiples of 2^-bits, for which A - LL' has certainly no negative eigenvalue; None where it may have.

    Of A the lower half is given, in whole numbers. z'Az = |L'z|^2 + z'(A - LL')z, and the rest, known exactly, must be
    dominated by its diagonal. L is the Cholesky factor of A - lift, rounded, but wherever it came from the argument
    would hold. While no row's squares exceed the diagonal no sum of products does, by Cauchy and Schwarz: so columns
    can be packed.
    """
    n, largest, block = len(rows), max((abs(x) for row in rows for x in row), default=0), 64
    wide = (largest.bit_length() + 2 * bits + 11) // 8
    rest, least, off = [row[-1] << 2 * bits for row in rows], (lift + 1) << 2 * bits, [0] * n
    factor, columns, room = [[] for _ in rows], [], []
    for j in range(n):
        at = 8 * wide * (j % block)  # columns begin at the row of the last multiple of a block
        if at == 0 and j:
            columns = [rounded(column, 8 * wide * block) for column in columns]
        products = unpacked(rounded(sum(map(mul, factor[j], columns)), at), n - j, wide)
        if rest[j] < least:
            return None
        pivot = math.isqrt(rest[j] - (lift << 2 * bits))
        room.append(rest[j] - pivot**2)
        column = [pivot]
        for i in range(j + 1, n):
            left = (rows[i][j] << 2 * bits) - products[i - j]
            entry = (2 * left + pivot) // (2 * pivot)
            lost = abs(left - entry * pivot)
            off[i] += lost
            off[j] += lost
            rest[i] -= entry * entry
            column.append(entry)
        if min(rest[j + 1 :], default=least) < least:
            return None
        for i, entry in enumerate(column, j):
            factor[i].append(entry)
        columns.append(packed(column, wide) << at)
    return factor if all(r >= o for r, o in zip(room, off)) else None


def rounded(number, bits):
    """Return a number without its last bits, to the nearest."""
    return (number + (1 << bits - 1)) >> bits if bits else number


def bends(a):
    """Return squares of the columns of X, the most that a column of L may lose, and the bits of L and of X; or None.

    L, which rises no higher than 2^30 with its bits, has A - LL' without negative eigenvalue, and LX is the identity
    but for half of L's diagonal in units of X's last bit. X is in units of 2^(bits - digits).
    """
    highest, n, digits = max(row[-1] for row in a), len(a), 60
    bits = 30 - (max(highest, 1).bit_length() + 1) // 2
    factor = cholesky(a, bits, (n * (math.isqrt(max(highest, 0)) + 1) >> bits + 1) + 1)
    if factor is None:
        return None
    steepest, norms, rows, most = max(row[-1] for row in factor), [0] * n, [], 1 << 48
    wide = (n.bit_length() + 31 + 48 + 10) // 8
    for i, row in enumerate(factor):
        pivot = row.pop()
        values = [(pivot - 2 * x) // (2 * pivot) for x in unpacked(sum(map(mul, row, rows)), i, wide)]
        values.append(((2 << digits) + pivot) // (2 * pivot))
        if max(map(abs, values)) >= most:
            return None
        for k, value in enumerate(values):
            norms[k] += value * value
        rows.append(packed(values, wide))
    return norms, steepest, bits, digits


def shares_of_nodes(given):
    """Return the point of each node that has a form: form by form, there client by client, the nodes in their order."""
    points, at = {}, 0
    for number in sorted({*given.form} - {-1}):
        nodes = [k for k, f in enumerate(given.form) if f == number]
        end = at + len(nodes) * len(given.form_ids[number])
        need(end <= len(given.point), "shares are missing")
        points |= {k: given.point[at + place : end : len(nodes)] for place, k in enumerate(nodes)}
        at = end
    need(at == len(given.point), "there are shares of no node")
    return points


def left_by_rows(data, given):
    """Stages of multipliers leave out clients that no selection worth more than the goal contains; return the others.

    Squares |F's|^2 2^-h are never negative, nor are products s_i s_j, so that entries of F F' may be rounded up. The
    value 2 q of a pair is divided, i's share and j's: half each and p_i - p_j more for i, but 2 p_i for i of the core
    where j is not; then multipliers move some of it. With the m - 1 largest shares of each, a selection is worth the
    sum of its clients' values at most.
    """
    n, m, left, (goal,) = data.n, data.m, list(range(data.n)), given.goal
    limit = 2**61 // m**2
    stages, prices = (vars(given).get(f"stage_{name}", []) for name in ("ids", "price"))
    need(list(map(len, stages)) == list(map(len, prices)), "there is not one price for each client of a stage")
    for number, ids in enumerate(stages):
        if len(left) <= m:
            break
        need(len(set(ids)) == len(ids), "a stage names a client twice")
        price, core = dict(zip(ids, prices[number])), set(given.stage_core[number])
        factor, columns = given.stage_factor[number], len(given.stage_factor[number]) // max(len(ids), 1)
        need(columns * len(ids) == len(factor) and columns <= 512, "factors of a stage are no rows")
        row = {i: factor[k * columns : (k + 1) * columns] for k, i in enumerate(ids)} if columns else {}
        change, halvings = [defaultdict(int) for _ in range(n)], given.stage_halvings[number]
        for i, j, amount in zip(*[iter(given.stage_moved[number])] * 3):
            need(min(i, j) >= 0 and max(i, j) < n, "a multiplier is not of two clients")
            change[i][j] += amount
            change[j][i] -= amount
        values, squares = {}, []  # of each client those with the clients from it on: the others stand there already
        for at, i in enumerate(left):
            pairs, own, here, mine = data.pair[i], row.get(i), price.get(i, 0), i in core
            shares, moves, alone = [], change[i], -data.cost[i]
            with_own = (own and row.get(j) for j in left[at:])
            squares.append([-(-sum(map(mul, own, other)) >> halvings) if other else 0 for other in with_own])
            for j, square in zip(left, [squares[k][at - k] for k in range(at)] + squares[at]):
                pair = pairs[j] + square
                if i == j:
                    alone += pair
                    continue
                need(abs(pair) <= limit, "the factors of a stage are too large")
                if mine == (j in core):
                    pair += here - price.get(j, 0)
                else:
                    pair = 2 * here if mine else 2 * (pair - price.get(j, 0))
                shares.append(pair + moves[j] if j in moves else pair)
            need(max(*map(abs, shares), abs(alone)) <= limit, "the multipliers of a stage are too large")
            values[i] = alone + sum(sorted(shares)[len(shares) - (m - 1) :])
        top = sorted(values.values())[-m:]
        left = [i for i in left if min(sum(top[1:]) + values[i], sum(top)) > goal]
    return set(left)


def check_dispersion(problem, unit, given):
    """No selection is worth more than the goal, or the best of those evaluated on the way through the tree."""
    data = Data(problem, unit, given.grid, given.order)
    form, (goal,), (grain,) = functools.cache(lambda number: Form(data, given, number, rules)), given.goal, given.grain
    node = {origin: k for k, origin in enumerate(given.origin)}
    need(len(node) == len(given.origin), "two nodes lie at one place")
    need(all(origin < 2 * k for origin, k in node.items()), "a node lies above itself")
    points, rules = shares_of_nodes(given), Sides(problem, data.n, data.m, given)
    listed = Listed(data, rules, given, unit)

    def bound(tangent, state):
        """A bound of what agrees with a state, times grain^2; the gradient's entries where the best selection ends."""
        (base, slope), ones = tangent, [i for i, known in enumerate(state) if known == ONE]
        free = sorted(slope[i] for i, known in enumerate(state) if known == FREE)
        cut = len(free) - (data.m - len(ones))
        return base + grain * (sum(slope[i] for i in ones) + sum(free[cut:])), free[cut], free[cut - 1]

    def sides(k, state, above):
        """Return the sides that a node leaves open: where, what is fixed there, and the tangents above."""
        client, kept, found = given.client[k], None, []
        if given.form[k] >= 0:
            kept = form(given.form[k])
            plain = kept.is_plain or not (rules.any or listed.any)
            need(plain, "beside side constraints, or listed selections, no client follows another")
            tangent = rules.charge(kept.tangent(points[k], state, grain), k, grain)
            most, lower, upper = bound(tangent, state)
            if most <= goal * grain**2:
                return []
            state, above = bytearray(state), (*above, tangent)
            need(len(above) * data.n <= NUMBERS, f"the tangents above a node have more than {NUMBERS} numbers")
            if not kept.fix(most, tangent, (lower, upper), state, points[k], goal, grain):
                return []
            if not kept.imply(state, [i for i, known in enumerate(state) if known != FREE]):
                return []
            state = rules.keep(state)
            if data.settled(state) is not None:
                return [(-2, state, ())] if state else []
        need(client >= 0, f"node {k} is said to be closed, but its tangent lies above the goal")
        for value in (ZERO, ONE):
            child = bytearray(state)
            if child[client] in (FREE, value):
                child[client] = value
                if kept is None or kept.imply(child, [client]):
                    found.append((2 * k + (value == ONE), child, above))
        return found

    left = left_by_rows(data, given)
    start = bytearray(known if i in left else ZERO for i, known in enumerate(rules.start))
    best, stack = goal, [(-1, start, ())]
    while stack:
        origin, state, above = stack.pop()
        if (value := data.settled(state := rules.keep(state))) is not None:
            best = listed.best(best, value, goal, data.only(state or b""))
        elif origin in node:
            stack += sides(node[origin], state, above)
        else:
            closed = any(bound(tangent, state)[0] <= goal * grain**2 for tangent in reversed(above))
            need(closed, f"no node lies at {origin}, and no tangent closes it")
    problem.listed = listed.pool, listed.values, listed.refused, goal * unit + data.error, unit
    return max([best, *listed.most]) * unit + data.error


def as_dispersion(problem):
    """Give a quadratic problem distances, none of them below 0, and costs; return what its bounds say about itself.

    A pair is moved in doubles; the most that rounding takes from one is allowed for in every pair.
    """
    sign, m, n = 1 if problem.sense == "max" else -1, problem.size, len(problem.quadratic)
    need(n <= CLIENTS, "the problem is out of range")
    signed = [[sign * x for x in row] for row in problem.quadratic]
    least = min([0.0, *(x for i, row in enumerate(signed) for x in row[:i] + row[i + 1 :])])
    problem.costs, problem.weight = [-row[i] for i, row in enumerate(signed)], 1.0
    problem.distances = [[0.0 if i == j else x - least for j, x in enumerate(row)] for i, row in enumerate(signed)]
    pairs = {x for i, row in enumerate(signed) for x in row[:i] + row[i + 1 :]}
    lost = max((abs(Fraction(x) - Fraction(least) - Fraction(x - least)) for x in pairs), default=0)
    moved = m * (m - 1) * (Fraction(least) + lost)
    return lambda proved: sign * (proved + moved) + Fraction(problem.constant)


def check_balance(problem, unit, given):
    """With b = B a - q, |sum of b|^2 / (B M)^2 is the imbalance of M samples: at least k less what a bound leaves to k.

    |sum of b|^2 - k M^2 is stated with distances and costs, for k = level / 2^fine, and M lies between the samples of
    the smallest clients and of the largest. Whole counts that add up to M have an imbalance of their own.
    """
    counts, m, classes = problem.label_counts, problem.size, len(problem.label_counts[0])
    need(m <= len(counts), "the problem is out of range")
    samples = [sum(row) for row in counts]
    order = sorted(samples)
    fewest, most = sum(order[:m]), sum(order[-m:])
    need(order[0] > 0, "a client has no sample")
    rest = fewest % classes if order[0] == order[-1] else 0
    bound = Fraction(rest * (classes - rest), classes * fewest**2)
    need(not given.pool and not given.vetoed, "certificates of balance list no selections")
    if not given.level:
        return bound
    need(max(len(counts), classes) <= 1 << 11, "the problem is out of range")
    need(len(given.level) == 1, "more than one level is given")
    (level,), (fine,) = given.level, given.fine
    beta = [[classes * a - q for a in row] for row, q in zip(counts, samples)]
    half = 2 << fine
    gram = [
        [half * sum(map(mul, x, y)) - 2 * level * p * q for y, q in zip(beta, samples)] for x, p in zip(beta, samples)
    ]
    own = [row[i] for i, row in enumerate(gram)]
    apart = [[(own[i] + own[j]) // 2 - g for j, g in enumerate(row)] for i, row in enumerate(gram)]
    shift = max(0, -min(map(min, apart)))
    apart = [[0 if i == j else d + shift for j, d in enumerate(row)] for i, row in enumerate(apart)]
    error = Fraction(m * m * (max(map(max, apart)) + max(map(abs, own))), half << 53)
    problem.distances = [[math.ldexp(float(d), -fine - 1) for d in row] for row in apart]
    problem.costs, problem.weight = [math.ldexp(float(m * g), -fine - 1) for g in own], 1.0
    worth = attainable(problem, check_dispersion(problem, unit, given))
    least = Fraction(shift * m * (m - 1), half) - worth - error
    if level == 0:
        return max(bound, Fraction(max(0, math.ceil(least)), (classes * most) ** 2))
    return max(bound, (Fraction(level, 1 << fine) + least / (fewest if least < 0 else most) ** 2) / classes**2)


class Trail:
    """The state of a walk through a tree: whoever is fixed stands in a list, in its order, and is free again above."""

    def __init__(self, state, size):
        self.state, self.size, self.fixed = state, size, []

    def is_open(self):
        """Whether several selections are left."""
        return 0 < self.size - self.state.count(ONE) < self.state.count(FREE)

    def fix(self, candidate, side):
        """Choose a candidate that is free, or leave it out."""
        if self.state[candidate] == FREE:
            self.state[candidate] = side
            self.fixed.append(candidate)

    def back(self, depth, candidate, side):
        """Free all but the first ones fixed, and fix the candidate of the side of a branch there."""
        while len(self.fixed) > depth:
            self.state[self.fixed.pop()] = FREE
        if candidate is not None:
            self.fix(candidate, side)


def check_coverage(problem, unit, given):
    """For any u, max over S of s <= u + sum over S of max(0, s - u): a bound, summed over rows, of the m best sums.

    Similarities are rounded up, costs down. Of candidates alike in every row one serves for all, where m are left and
    all costs are the same. Side constraints are left out.
    """
    rows, m, (goal,) = len(problem.similarity), problem.size, given.goal
    reach = max(abs(x) for row in problem.similarity for x in row)
    widest = int(Fraction(reach) / unit) + 1 + max(map(abs, given.multiplier), default=0)
    charged = m * (int(Fraction(max(map(abs, problem.costs))) / unit) + 1)
    need(widest * rows + charged < 1 << 61, "the grid is too fine for the problem's numbers")
    cost = [math.floor(Fraction(c) / unit) for c in problem.costs]
    worth = [[math.ceil(Fraction(x) / unit) for x in column] for column in zip(*problem.similarity)]
    n, alike, node = len(worth), {}, {origin: k for k, origin in enumerate(given.origin)}
    need(m <= n and max(given.client, default=0) < n, "a candidate is out of range")
    need(len(node) == len(given.origin) and all(at < 2 * k for at, k in node.items()), "two nodes lie at one place")
    need(len(given.multiplier) == rows * sum(given.looks), "there is not one multiplier for each row at each look")
    vectors = [given.multiplier[k : k + rows] for k in range(0, len(given.multiplier), rows)]
    first = list(accumulate(given.looks, initial=0))
    for j, column in enumerate(worth):
        alike.setdefault(tuple(column), j)
    kept = set(alike.values()) if len(alike) >= m and len(set(cost)) == 1 else set(range(n))
    trail = Trail(bytearray(FREE if j in kept else ZERO for j in range(n)), m)
    best, stack, state = goal, [(-1, 0, None, None)], trail.state

    def look(u):
        """Fix the candidates whose other side is closed; False where all is."""
        rho = {j: sum(s - v for s, v in zip(worth[j], u) if s > v) - cost[j] for j in range(n) if state[j] != ZERO}
        free, missing = sorted((rho[j] for j in rho if state[j] == FREE), reverse=True), m - state.count(ONE)
        loss = sum(u) + sum(rho[j] for j in rho if state[j] == ONE) + sum(free[:missing]) - goal
        for j in [j for j in rho if state[j] == FREE]:
            is_top = rho[j] >= free[missing - 1]
            if (rho[j] - free[missing] if is_top else free[missing - 1] - rho[j]) >= loss:
                trail.fix(j, ONE if is_top else ZERO)
        return loss > 0

    while stack:
        origin, depth, client, side = stack.pop()
        trail.back(depth, client, side)
        k = node.get(origin)
        here = [] if k is None else vectors[first[k] : first[k + 1]]
        if not all(look(u) for u in here if trail.is_open()):
            continue
        if not trail.is_open():
            chosen = [j for j in range(n) if state[j] == ONE or (state[j] == FREE and state.count(ONE) < m)]
            if len(chosen) == m:
                best = max(best, sum(map(max, zip(*(worth[j] for j in chosen)))) - sum(cost[j] for j in chosen))
            continue
        need(k is not None and given.client[k] >= 0, "a side is missing, or a node is open and has no sides")
        for side in (ZERO, ONE):
            if state[given.client[k]] in (FREE, side):
                stack.append((2 * k + (side == ONE), len(trail.fixed), given.client[k], side))
    return best * unit


def check_schedule(problem, unit, given):
    """v^2 >= (2 a + 1) v - a (a + 1) for whole v and a: a price of turns, of which each round takes the cheapest.

    All schedules have as many turns, so that a bound on the sum of squares is one on the variance.
    """
    counts, sizes, price = problem.counts, problem.sizes, [2 * a + 1 for a in given.level]
    n, turns = len(counts), sum(counts) + sum(sizes)
    least = sum(p * c - a * (a + 1) for p, c, a in zip(price, counts, given.level))
    for there, size in zip(problem.available, sizes):
        need(size <= sum(map(bool, there)), "a round selects more than are available")
        least += sum(sorted(p for p, is_there in zip(price, there) if is_there)[:size])
    return Fraction(n * least - turns**2, n * n)


def attainable(problem, bound):
    """Return the largest value up to a bound that sums of m (m - 1) / 2 distances and m costs have, if they are few."""
    m, weight = problem.size, 2 * exact(problem.weight)
    pairs = m * (m - 1) // 2
    distances, spread = distinct({x for i, row in enumerate(problem.distances) for x in row[i + 1 :]})
    costs, cost_spread = distinct({-x for x in problem.costs})
    if not (has_few_sums(len(distances), pairs) and has_few_sums(len(costs), m)):
        return bound
    distances = [weight * x for x in distances]
    fine = math.lcm(*(x.denominator for x in [*distances, *costs]))
    slack = math.ceil((weight * pairs * spread + m * cost_spread) * fine)
    first, limit, best = sorted(sums([int(x * fine) for x in distances], pairs)), math.floor(bound * fine) + slack, None
    for total in sums([int(x * fine) for x in costs], m):
        place = bisect_right(first, limit - total)
        if place and (best is None or first[place - 1] + total > best):
            best = first[place - 1] + total
    return bound if best is None else min(Fraction(best, fine), bound)


def has_few_sums(values, count):
    """Whether so many of the values, with repetition, are at most 100 000 choices."""
    choices = 1
    for k in range(1, values):
        choices = choices * (count + k) // k
        if choices > 100_000:
            return False
    return True


def distinct(values):
    """Return the largest of each group of nearly equal values, and the widest group."""
    values = sorted(map(float, values)) or [0.0]
    apart, groups = 1e-13 * max(map(abs, values)), []
    for v in values:
        if groups and v - groups[-1][-1] <= apart:
            groups[-1].append(v)
        else:
            groups.append([v])
    return [Fraction(each[-1]) for each in groups], max(Fraction(each[-1]) - Fraction(each[0]) for each in groups)


def sums(values, count):
    """Return all sums of so many of the values, with repetition."""
    found = {(0, 0)}  # how many are used, and their sum
    for v in values[:-1]:
        found = {(used + k, total + k * v) for used, total in found for k in range(count - used + 1)}
    return {total + (count - used) * values[-1] for used, total in found}


CHECKS = {
    "allocation": check_allocation,
    "balance": check_balance,
    "coverage": check_coverage,
    "schedule": check_schedule,
    "capping": check_capping,
    "cutoff": check_cutoff,
    "exclusion": check_exclusion,
    "optimization-error": check_optimization_error,
    "total-error": check_total_error,
    "points": check_points,
    "dispersion": check_dispersion,
    "kinds": check_dispersion,
    "rlt": check_dispersion,
    "quadratic": check_dispersion,
    "quadratic-rlt": check_dispersion,
}


# -- the verdict -------------------------------------------------------------------------------------------------------


def check(problem, kind, digest, bound, grid, arrays):
    """Return the bound that is proved, rounded to the safe side; `Refused` where it is not as good as the one claimed.

    ``problem`` is what `problem_of` returns, ``arrays`` are lists by name, and the others what the header states.
    """
    need(isinstance(kind, str) and kind in SCHEMAS, f"certificates of kind {kind!r:.80} are not known")
    need(digest == problem.digest, "the certificate is about another problem")
    need(isinstance(bound, float) and math.isfinite(bound), f"the bound {bound!r} is no number")
    given, unit = validated(kind, problem, grid, arrays), Fraction(2) ** grid
    afford_all(kind, problem, given)
    sign, claim, units = SCHEMAS[kind][0], Fraction(bound), lambda proved: proved
    if kind == "kinds":  # clients of a kind differ in their costs alone: the same problem with a row for each client
        need(len(problem.kinds) <= 1 << 11, "too many clients for a row each")
        h, of = problem.distances, problem.kinds
        problem.distances = [[0.0 if i == j else h[a][b] for j, b in enumerate(of)] for i, a in enumerate(of)]
    try:
        if problem.type == "QuadraticProblem":
            sign, units = 1 if problem.sense == "max" else -1, as_dispersion(problem)
            problem.units = units
        proved = units(found := CHECKS[kind](problem, unit, given))
        if CHECKS[kind] is check_dispersion and sign * proved > sign * claim:
            proved = units(attainable(problem, found))
        float(proved)
    except ArithmeticError as error:
        raise Refused(f"the numbers leave the range of those computed with: {error}") from error
    safe = away(proved, sign)
    need(sign * proved <= sign * claim, f"the certificate claims {bound!r}, but proves only {safe!r}")
    return safe


def away(value, sign):
    """Return the nearest double that is not on the wrong side of a bound."""
    near = float(value)
    return math.nextafter(near, sign * math.inf) if sign * Fraction(near) < sign * value else near


def of_files(problem_path, certificate_path):
    """Return what `check` takes of two files; the certificate's must have the digest that it states."""
    problem = problem_of(problem_path)
    header, arrays = read(certificate_path, "solvers-certificate/1", CERTIFICATE)
    facts = header["kind"], header["problem"], float.fromhex(header["bound"]), header["grid"]
    text = hashlib.sha256(f"{facts[0]} {facts[1]} {facts[2].hex()} {facts[3]}".encode())
    for name, (code, shape, _, values) in arrays.items():
        need(code[1] in "iu" and len(shape) == 1, f"array {name!r:.80} must hold whole numbers, and have one dimension")
        text.update(f" {name} {shape} ".encode() + struct.pack(f"<{len(values)}q", *values))
    need(text.hexdigest() == header["digest"], f"{certificate_path!r} was changed or damaged: its digest is another")
    return problem, *facts, {name: values for name, (_, _, _, values) in arrays.items()}


def check_files(problem_path, certificate_path):
    """Return the bound that is proved of a problem's file by a certificate's."""
    return check(*of_files(problem_path, certificate_path))


def pool_lines(problem):
    """Return what was proved of listed selections, in lines: those that follow from a search with a pool."""
    pool, values, refused, others, unit = vars(problem).get("listed", ([], [], set(), 0, 1))
    if not pool and not refused:
        return []
    ids, units = vars(problem).get("clients", range(len(problem.costs))), vars(problem).get("units", lambda x: x)
    lines = [f"  worth {float(units(v * unit))!r}: {[ids[i] for i in chosen]}" for chosen, v in zip(pool, values)]
    lines += [f"  refused by a veto: {[ids[i] for i in chosen]}" for chosen in sorted(refused)]
    sign = -1 if vars(problem).get("sense") == "min" else 1
    return [f"every selection but {len(lines)} is no better than {away(units(others), sign)!r}:", *lines]


DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, MemoryError, EOFError, SyntaxError, RuntimeError)
UNREADABLE = (*DAMAGE, OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


def say(text):
    """Print one line in which nothing moves the cursor, changes a colour or cannot be encoded, whatever a file says."""
    text = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)
    code = getattr(sys.stdout, "encoding", None) or "ascii"
    print(text.encode(code, "backslashreplace").decode(code))


def main(arguments):
    """Print the verdict, and return the exit code."""
    if len(arguments) != 2:
        print(__doc__)
        return 2
    try:
        given = of_files(*arguments)
        bound, of_whole = check(*given), given[1] == "allocation" and given[-1]["whole"] == [1]
        say(f"verified: the bound {bound!r} is proved{' for decisions in whole numbers alone' if of_whole else ''}")
        for line in pool_lines(given[0]):
            say(line)
    except Refused as error:
        say(f"REFUSED: {error}")
        return 3
    except UNREADABLE as error:
        say(f"a file cannot be read: {str(error) or type(error).__name__}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
