#!/usr/bin/env python3
r"""Check a certificate of a bound: one file, Python's standard library alone.

    python check_certificate.py problem.npz certificate.npz

prints the bound that is proved, and ends with 0; with 3 where the certificate does not prove what it claims, and with 2
where a file cannot be read. It shares no line with `solvers.certificates`, which checks the same rules with NumPy, nor
with what found the bound: whole numbers and fractions, and 80 decimals where logarithms are. Read it in an hour; the
argument that it accepts nothing false is in docs/mathematics/soundness.md.
"""

import array
import ast
import hashlib
import json
import math
import operator
import struct
import sys
import zipfile
import zlib
from bisect import bisect_left, bisect_right
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import accumulate, pairwise


class Refused(Exception):
    """The certificate does not prove what it claims; the message says why."""


def need(condition, sentence):
    """Refuse with a sentence unless a condition holds."""
    if not condition:
        raise Refused(sentence)


# -- files: a zip of arrays, each of them a header and its bytes ---------------------------------------------------

LIMIT = 1 << 30  # bytes of all arrays of a file
CODES = {"b1": "B", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q"}
CODES |= {"f4": "f", "f8": "d"}


def read_npz(path):
    """The header of a file, and its arrays by name: type, shape, bytes, and the numbers as one list."""
    arrays, header = {}, None
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        need(sum(m.file_size for m in members) <= LIMIT, f"{path} unpacks to more than {LIMIT} bytes")
        need(len({m.filename for m in members}) == len(members), f"{path} names a member twice")
        for member in members:
            need(member.filename.endswith(".npy") and not member.flag_bits & 1, f"{member.filename} is no array")
            with archive.open(member) as stream:
                data = stream.read(member.file_size)
            name, (kind, shape, content) = member.filename[:-4], npy(data)
            if name == "header":
                need(kind[1] == "U" and shape == (), "the header is no text")
                header = json.loads(content.decode("utf-32-le").rstrip("\0"))
            else:
                arrays[name] = (kind, shape, content, numbers(kind, content))
    need(isinstance(header, dict), f"{path} has no header")
    return header, arrays


def npy(data):
    """Type, shape and bytes of an array, whose header must state the size it has."""
    need(data[:6] == b"\x93NUMPY" and data[6:8] in (b"\x01\x00", b"\x02\x00"), "an array has another format")
    wide = 4 if data[6] == 2 else 2
    start = 8 + wide + int.from_bytes(data[8 : 8 + wide], "little")
    stated = ast.literal_eval(data[8 + wide : start].decode("latin1"))
    kind, shape = stated["descr"], stated["shape"]
    need(isinstance(kind, str) and kind[0] in "<|" and type(shape) is tuple, "an array has another type")
    need(all(type(k) is int and k >= 0 for k in shape), "an array has another shape")
    need(kind[1] == "U" or kind[1:] in CODES, f"an array holds {kind}, no numbers")
    size = 4 * int(kind[2:]) if kind[1] == "U" else int(kind[2:])
    need(math.prod(shape) * size == len(data) - start, "an array states another size than it has")
    content = data[start:]
    if stated["fortran_order"] and len(shape) > 1:
        rows, columns = shape
        item = [content[k : k + size] for k in range(0, len(content), size)]
        content = b"".join(item[j * rows + i] for i in range(rows) for j in range(columns))
    return kind, shape, content


def numbers(kind, content):
    """The numbers of an array of such a type."""
    values = array.array(CODES[kind[1:]])
    values.frombytes(content)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


class Problem:
    """The fields of a problem, lists of lists for a matrix, and its digest."""

    def __init__(self, header, arrays):
        need(header.get("format") == "solvers-problem/1", "the first file is no problem")
        self.type, self.fields = header["type"], dict(header["scalars"])
        text = hashlib.sha256(json.dumps([self.type, self.fields], sort_keys=True).encode())
        for name in sorted(arrays):
            kind, shape, content, values = arrays[name]
            text.update(f"{name} {kind} {shape}\n".encode() + content)
            need(all(map(math.isfinite, values)), f"{name} of the problem holds what is no number")
            if len(shape) == 2:
                values = [values[k * shape[1] : (k + 1) * shape[1]] for k in range(shape[0])]
            self.fields[name] = values
        self.digest = text.hexdigest()

    def __getattr__(self, name):
        need(name in self.__dict__.get("fields", {}), f"the problem lacks {name}")
        return self.fields[name]

    def exact(self, name):
        """A number, or a list of numbers, as fractions."""
        value = getattr(self, name)
        return [Fraction(v) for v in value] if isinstance(value, list) else Fraction(value)


# -- the form of certificates -----------------------------------------------------------------------------------------

ANY, ENTRIES, POINT, CLIENTS = 2**63 - 1, 1 << 23, 1 << 20, 1 << 16
MULTIPLIER, ROOM = 1 << 40, 1 << 44

# Of each kind: the problem it is about, the range of its grid, and its arrays: least entry, largest entry, length ("n":
# one for each client, "origin": one for each node) or, for parts one after the other, the size of their groups.
SCHEMAS = {
    "allocation": ("AllocationProblem", 1200, {"price": (0, ANY, 1), "whole": (0, 1, 1)}),
    "capping": ("CappingProblem", 1200, {"multiplier": (-ANY, ANY, 1)}),
    "cutoff": ("CutoffProblem", 0, {"cutoff": (1, 10**12, 1)}),
    "exclusion": ("ExclusionProblem", 1200, {"target": (-ANY, ANY, 1), "tree": (-ANY, ANY, None)}),
    "optimization-error": ("OptimizationErrorProblem", 1200, {"q": (0, ANY, "n")}),
    "total-error": ("TotalErrorProblem", 1200, {"q": (0, ANY, "n"), "multiplier": (0, ANY, 1)}),
    "points": ("PointDispersionProblem", 0, {"clients": (0, "n", None), "shares": (0, POINT, "clients")}),
    "dispersion": (
        "DispersionProblem",
        900,
        {
            "order": (0, "n", "n"),
            "goal": (-(2**62) + 1, 2**62 - 1, 1),
            "grain": (1, POINT, 1),
            "origin": (-1, 2 * ENTRIES, None),
            "client": (-1, "n", "origin"),
            "form": (-1, "forms", "origin"),
            "point": (0, POINT, None),
            "form_room": (0, ROOM - 1, "forms"),
        },
    ),
}
PARTS = {
    "form_ones": (0, "n", 1),
    "form_ids": (0, "n", 1),
    "form_diagonal": (1 - MULTIPLIER, MULTIPLIER - 1, 1),
    "form_nonnegative": (0, MULTIPLIER - 1, 3),
    "form_dominated": (1 - MULTIPLIER, MULTIPLIER - 1, 3),
    "form_better": (0, "n", 2),
}
FIRST = {"AllocationProblem": "sizes", "CutoffProblem": "rates", "ExclusionProblem": "importance"}
FIRST |= {"OptimizationErrorProblem": "availability", "TotalErrorProblem": "availability"}
FIRST |= {"PointDispersionProblem": "points", "DispersionProblem": "distances"}


def validated(kind, problem, grid, arrays):
    """The arrays as lists, the parts as lists of lists; everything in its range."""
    need(kind in SCHEMAS, f"certificates of kind {kind!r} are not known")
    about, widest, rules = SCHEMAS[kind]
    need(problem.type == about, f"a certificate of kind {kind!r} is about a {about}, not about a {problem.type}")
    need(type(grid) is int and abs(grid) <= widest, f"the grid must be a whole number up to {widest}; got {grid!r}")
    rules, parts = dict(rules), PARTS if kind == "dispersion" else {}
    for name, (least, most, _) in parts.items():
        rules |= {name: (least, most, None), f"{name}_start": (0, ENTRIES, None)}
    need(set(arrays) == set(rules), f"the arrays must be {', '.join(sorted(rules))}")
    for name, values in arrays.items():
        need(len(values) <= ENTRIES and all(type(v) is int for v in values), f"{name} must hold few whole numbers")
    if about == "CappingProblem":
        n = len(problem.weights if problem.log_weights is None else problem.log_weights)
    else:
        n = len(getattr(problem, FIRST[about]))
    forms = max(len(arrays.get("form_ids_start", "x")) - 1, 0)
    count, last = {"n": n, "forms": forms}, {"n": n - 1, "forms": forms - 1}
    for name, (least, most, length) in rules.items():
        values, top = arrays[name], last.get(most, most)
        need(not values or (min(values) >= least and max(values) <= top), f"{name} must lie from {least} to {top}")
        if length is not None:
            wanted = length if isinstance(length, int) else count[length] if length in count else len(arrays[length])
            need(len(values) == wanted, f"{name} must have {wanted} entries")
    found = dict(arrays)
    for name, (_, _, group) in parts.items():
        starts, values = arrays[f"{name}_start"], arrays[name]
        whole = len(starts) == forms + 1 and starts[0] == 0 and starts[-1] == len(values)
        need(whole, f"the parts of {name} do not begin at 0 and end at the end, one for each form")
        ends = list(pairwise(starts))
        need(all(a <= b and (b - a) % group == 0 for a, b in ends), f"the parts of {name} do not follow each other")
        found[name] = [values[a:b] for a, b in ends]
    return found


# -- convex families --------------------------------------------------------------------------------------------------


def check_allocation(problem, unit, arrays):
    """For a price p >= 0 of a client: the sum of min over s of (c / s + p s), less p times the total, less c / N."""
    (price,), (whole,) = arrays["price"], arrays["whole"]
    rate, here = price * unit, [k for k, most in enumerate(problem.upper) if most > 0]
    everybody, bound = sum(problem.sizes[k] for k in here), -price * unit * problem.total
    for k in here:
        size, least, most = problem.sizes[k], problem.lower[k], problem.upper[k]
        cost = (size * Fraction(problem.deviations[k]) / everybody) ** 2
        if cost == 0:
            bound += rate * least
            continue
        if whole:  # convex: best where neither neighbour is better
            low, high = max(least, 1), most
            need(low <= high, "an allocation has no room")
            while low < high:
                s = (low + high) // 2
                if cost / s + rate * s <= cost / (s + 1) + rate * (s + 1):
                    high = s
                else:
                    low = s + 1
            best = cost / low + rate * low
        else:  # c / s >= 2 c / r - c s / r^2 for any r > 0, here near the best s; what is left is linear in s
            root = Fraction(math.isqrt(int(cost / rate * 4**40)) + 1, 2**40) if rate > 0 else Fraction(most)
            touch = min(max(root, Fraction(least)), Fraction(most))
            slope = rate - cost / touch**2
            best = 2 * cost / touch + slope * (least if slope > 0 else most)
        bound += best - cost / size
    return bound


def check_exclusion(problem, unit, arrays):
    """No set S is worth less than rho where sum of a (e - rho) over S, and G a(S) (T - a(S))^2, is never negative."""
    gaps = {}
    for a, e in zip(problem.exact("importance"), problem.exact("loss_gaps"), strict=True):
        gaps.setdefault(a, []).append(e)
    weights, gamma = sorted(gaps), problem.exact("heterogeneity")
    need(gamma >= 0 and weights[0] > 0, "importance must be positive, and heterogeneity not negative")
    groups = [sorted(gaps[a]) for a in weights]
    sums = [[Fraction(0), *accumulate(each)] for each in groups]
    total = sum(a * len(each) for a, each in zip(weights, groups))
    rho, tree, at = arrays["target"][0] * unit, arrays["tree"], 0
    stack = [((0,) * len(groups), tuple(map(len, groups)), Fraction(0), total)]
    while stack:  # a box: fewest and most kept of each group (of least gap), least and most importance kept
        low, high, least, most = stack.pop()
        need(at + 2 <= len(tree), "a branch of the tree is missing")
        code, number = tree[at : at + 2]
        at += 2
        if code == -2:
            cut = number * unit
            stack += [(low, high, max(least, cut), most), (low, high, least, min(most, cut))]
        elif 0 <= code < len(groups):
            fewer, more = list(high), list(low)
            fewer[code], more[code] = min(high[code], number), max(low[code], number + 1)
            stack += [(tuple(more), high, least, most), (low, tuple(fewer), least, most)]
        else:
            need(code == -1, "a code of the tree means nothing")
            least = max(least, sum(a * k for a, k in zip(weights, low)))
            most = min(most, sum(a * k for a, k in zip(weights, high)))
            if least > most or any(k > j for k, j in zip(low, high)):
                continue
            slope = number * unit
            bound = cubic_floor(gamma, total, slope, least, most)
            for a, each, upto, k, j in zip(weights, groups, sums, low, high):
                kept = min(max(bisect_left(each, rho - slope), k), j)
                bound += a * (upto[kept] - (rho - slope) * kept)
            need(bound >= 0, "the slope of a leaf leaves it below zero")
    need(at == len(tree), "numbers are left over after the tree")
    return rho


def cubic_floor(gamma, total, slope, least, most):
    """Below gamma a (total - a)^2 - slope a on an interval: it is concave up to 2/3 total, then above its tangents."""

    def value(a):
        return gamma * a * (total - a) ** 2 - slope * a

    found, bend = min(value(least), value(most)), 2 * total / 3
    if most <= bend or gamma == 0:
        return found
    left, inside = max(least, bend), total**2 + 3 * slope / gamma
    touch = min(max((2 * total + Fraction(math.isqrt(max(int(inside * 4**40), 0)), 2**40)) / 3, left), most)
    tilt = gamma * (total - touch) * (total - 3 * touch) - slope
    return min(found, value(left), value(touch) + min(tilt * (left - touch), tilt * (most - touch)))


def slopes(problem, arrays):
    """The gradient of the ratio, convex and homogeneous in the biased importance p, at the certificate's weights."""
    need(sum(arrays["q"]) > 0, "the weights must not all be zero")
    total, v, pi = problem.exact("total"), problem.exact("variances"), problem.exact("availability")
    need(total > 0 and min(v) >= 0 and min(pi) > 0, "variances, total or availability are out of range")
    q = [total * k / sum(arrays["q"]) for k in arrays["q"]]
    rest = (problem.exact("offset") - sum(a * b * c * c for a, b, c in zip(v, pi, q, strict=True)) / 2) / total
    return [a * c + rest / b for a, b, c in zip(v, pi, q)]


def check_optimization_error(problem, unit, arrays):
    """The least of d p over distributions p."""
    return min(slopes(problem, arrays)) + problem.exact("constant")


def check_total_error(problem, unit, arrays):
    """The dual of min d p + w bias(alpha, p) over distributions p."""
    d, alpha, w = slopes(problem, arrays), problem.exact("importance"), problem.exact("bias_weight")
    need(w >= 0 and min(alpha) >= 0 and len(alpha) == len(d), "importance or the weight of the bias is out of range")
    step, constant = arrays["multiplier"][0] * unit, problem.exact("constant")
    if w == 0:
        return min(d) + constant
    if problem.bias == "tv":  # x^2 >= 2 t x - t^2
        nu = min(d) + w * step
        moved = sum(a * min(w * step, each - nu) for a, each in zip(alpha, d))
        return nu + moved + w * step * problem.exact("excluded") - w * step**2 + constant
    need(problem.bias == "chi2" and problem.exact("excluded") == 0, "the bias is not known")
    nu = min(d) - step
    roots = [w * (each - nu) for each in d]
    roots = [Fraction(math.isqrt(r.numerator * 4**120 // r.denominator), 2**120) for r in roots]  # rounded down
    return nu + 2 * sum(map(operator.mul, alpha, roots)) - 2 * w * sum(alpha) + w + constant


DIGITS = Context(prec=80, Emax=10**9, Emin=-(10**9))
PART = Decimal("1e-40")  # of the sum of all quantities before any cancel; rounding takes less than 1e-60 of it


def below(quantities):
    """A number certainly not above the sum of what these decimals stand for."""
    return Fraction(sum(quantities)) - Fraction(PART * sum(map(abs, quantities)))


def check_capping(problem, unit, arrays):
    """Sum of min over r of r log(r / v) - r + v - mu r, plus mu times the mass; never negative."""
    logs, floor = problem.log_weights, problem.exact("floor")
    mu, raw = arrays["multiplier"][0] * unit, problem.weights if logs is None else logs
    mass = problem.size - len(raw) * floor
    if mass <= Fraction(2, 10**12) * problem.size:
        return Fraction(0)
    spread = 0 if logs is None else max(raw) - min(raw)
    need(abs(mu) <= 10**8 and spread <= 10**8 and (logs is not None or min(raw) > 0), "exponents are out of range")
    with localcontext(DIGITS):
        mu, mass = (Decimal(x.numerator) / Decimal(x.denominator) for x in (mu, mass))
        cap, top = 1 - Decimal(problem.floor), Decimal(max(raw))
        weights = [Decimal(w) if logs is None else (Decimal(w) - top).exp() for w in raw]
        growth, share, quantities = mu.exp(), mass / sum(weights), [mu * mass]
        for v in (share * weight for weight in weights):
            if v * growth > cap * (1 + PART):
                quantities += [cap * (cap / v).ln(), v, -cap, -mu * cap]
            else:  # the smallest value for any r at all
                quantities += [v, -v * growth]
        return max(Fraction(0), below(quantities))


def check_cutoff(problem, unit, arrays):
    """K ln T / T + mean (1 - p)^2K is convex in K: the value at a K whose neighbours are certainly no better."""
    (cutoff,), rates, horizon = arrays["cutoff"], problem.rates, problem.horizon
    need(type(horizon) is int and horizon >= 2 and all(0 < p <= 1 for p in rates), "the problem is out of range")

    def quantities(k):
        found = [k * Decimal(horizon).ln() / horizon]
        for p in rates:
            base, power, left = 1 - Decimal(p), Decimal(1), 2 * k
            while left:
                power, base, left = power * base if left & 1 else power, base * base, left >> 1
            found.append(power / len(rates))
        return found

    with localcontext(DIGITS):
        here = quantities(cutoff)
        above = Fraction(sum(here)) + Fraction(PART * sum(here))
        for other in (cutoff - 1, cutoff + 1):
            need(other < 1 or below(quantities(other)) >= above, f"the cutoff {other} is no worse than {cutoff}")
        return below(here)


# -- dispersion -------------------------------------------------------------------------------------------------------


def check_points(problem, unit, arrays):
    """Euclidean distances are of negative type, so that the objective is concave where shares sum to m: its tangent."""
    clients, shares, m, weight = arrays["clients"], arrays["shares"], problem.size, problem.exact("weight")
    need(problem.metric == "euclidean" and weight >= 0 and 1 <= m <= len(problem.points), "only Euclidean distances")
    need(len(set(clients)) == len(clients) and sum(shares) == m * POINT, "the point does not lie on the slice")
    need(len(problem.points) * len(clients) <= 1 << 28, "too many distances to compute")
    fine = max(Fraction(x).denominator for row in problem.points for x in row)
    places, digits = [[int(Fraction(x) * fine) for x in row] for row in problem.points], 24
    share, above, inner = dict(zip(clients, shares)), [], 0
    for i, here in enumerate(places):
        reach = 0
        for j, part in share.items():
            square = sum((a - b) ** 2 for a, b in zip(here, places[j]))
            reach += part * math.isqrt(square << 2 * digits)  # rounded down, by less than 1
        inner += share.get(i, 0) * reach
        above.append(reach + m * POINT)
    scale = 2 * weight / fine / 2**digits / POINT
    values = sorted((scale * reach - Fraction(c) for reach, c in zip(above, problem.costs, strict=True)), reverse=True)
    return sum(values[:m], Fraction(0)) - scale / 2 * Fraction(inner, POINT)


FREE, ONE, ZERO = 0, 1, 2


class Data:
    """A dispersion problem in multiples of 2^grid, and by how much a selection's value can be off in units of it."""

    def __init__(self, problem, grid):
        h, c, m, w = problem.distances, problem.costs, problem.size, float(problem.weight)
        self.n, self.m, self.unit, unit = len(h), m, Fraction(2) ** grid, Fraction(2) ** grid
        need(self.n <= CLIENTS and len(c) == self.n and 1 <= m <= self.n and w >= 0, "the problem is out of range")
        need(all(len(row) == self.n and min(row) >= 0 for row in h), "distances must be square and not negative")
        need(all(h[i][i] == 0 for i in range(self.n)), "distances must be zero on the diagonal")
        need(all(row == list(column) for row, column in zip(h, zip(*h))), "distances must be symmetric")
        largest = Fraction(w) * Fraction(max(map(max, h))) / unit
        biggest = max(largest, *(abs(Fraction(x)) / unit for x in (min(c), max(c))))
        need(biggest < min(1 << 40, (1 << 61) // m**2), "the grid is too fine for the problem's numbers")
        # The doubles nearest to w h, off by a part of 2^-53 or by 2^-1075, rounded to the grid.
        products = [[w * x for x in row] for row in h]
        self.pair = [[round(math.ldexp(x, -grid)) for x in row] for row in products]
        self.cost = [round(math.ldexp(x, -grid)) for x in c]
        entries = [each for r, s in zip(products, h) for each in zip(r, s)]
        exact = math.frexp(w)[0] == 0.5 and all(p >= 2.0**-1000 or x == 0 for p, x in entries)
        exact = exact and all(k * unit == x for r, s in zip(self.pair, products) for k, x in zip(r, s))
        error = 0 if exact or largest == 0 else m * (m - 1) * (Fraction(1, 2) + largest / 2**52 + Fraction(1, 2**100))
        self.error = (error + (0 if all(k * unit == x for k, x in zip(self.cost, c)) else Fraction(m, 2))) * unit
        self.h, self.c, self.w, self.order, self.no_loss, self.rows = h, c, Fraction(w), None, {}, {}
        self.fine = max(x.as_integer_ratio()[1] for x in {x for row in h for x in row})

    def value(self, chosen):
        """Value of a selection of the rounded problem."""
        return sum(self.pair[i][j] for i in chosen for j in chosen) - sum(self.cost[i] for i in chosen)

    def require_exchange(self, i, j, ones, free):
        """Exchanging j for i beside ``ones`` and others of ``free`` is never a loss; a tie must lower the order."""
        if (i, j) not in self.no_loss:
            self.no_loss[i, j] = self.never_a_loss(i, j, [], range(self.n))
        need(self.no_loss[i, j] or self.never_a_loss(i, j, ones, free), f"exchanging client {j} for {i} can be a loss")

    def never_a_loss(self, i, j, ones, free):
        """Whether the least gain is positive, or 0 with i before j in the order."""
        for k in {i, j} - set(self.rows):  # in units of 1 / fine
            self.rows[k] = [a * (self.fine // b) for a, b in map(float.as_integer_ratio, self.h[k])]
        gains = list(map(operator.sub, self.rows[i], self.rows[j]))
        others = sorted(gains[k] for k in free if k not in (i, j))[: max(self.m - 1 - len(ones), 0)]
        least = 2 * self.w * Fraction(sum(gains[k] for k in ones) + sum(others), self.fine)
        least += Fraction(self.c[j]) - Fraction(self.c[i])
        return least > 0 or (least == 0 and self.order[i] < self.order[j])


class Form:
    """Multipliers that leave no selection worth less, and make the objective concave where the shares' sum is fixed."""

    def __init__(self, data, ones, ids, diagonal, nonnegative, dominated, better, room):
        n, self.ones, self.ids, self.open = len(ids), ones, ids, data.m - len(ones)
        need(len({*ones, *ids}) == len(ones) + n and len(diagonal) == n, "a form names a client twice")
        self.matrix = [[data.pair[i][j] for j in ids] for i in ids]
        self.linear = [2 * sum(data.pair[i][j] for j in ones) - data.cost[i] for i in ids]
        self.constant, self.raised, seen = data.value(ones), {}, set()
        for triples, sign in ((nonnegative, 1), (dominated, -1)):
            for i, j, half in zip(*[iter(triples)] * 3):
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
        self.follow = {}  # (client, state): clients that then have the same
        for i, j in zip(*[iter(better)] * 2):
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
        need(n < 2 or positive_semidefinite(a), "the multipliers do not make the objective concave")

    def tangent(self, point, state, grain):
        """Base and gradient of a tangent, times grain^2 and grain, without ``raised`` beside those chosen for good."""
        ids, here = self.ids, {*self.ids, *self.ones}
        need(max(point, default=0) <= grain and sum(point) == self.open * grain, "a point is not on the slice")
        need(all(state[i] == ONE for i in self.ones), "a form takes for chosen what is not")
        need(all(i in here or state[i] == ZERO for i in range(len(state))), "a form leaves out what is open")
        done = {k for k, i in enumerate(ids) if state[i] == ONE and point[k] == grain}
        rest, linear, base = [k for k in range(len(ids)) if k not in done], list(self.linear), self.constant
        towards = [0] * len(ids)
        for j in range(len(ids)):
            if j in done:
                row = [x - self.raised.get((j, k), 0) for k, x in enumerate(self.matrix[j])]
                base += self.linear[j] + sum(row[k] for k in done)
                linear = [a + 2 * b for a, b in zip(linear, row)]
            elif point[j]:
                towards = [a + point[j] * b for a, b in zip(towards, self.matrix[j])]
        gradient = [0] * len(state)
        for k in rest:
            gradient[ids[k]] = grain * linear[k] + 2 * towards[k]
        return base * grain**2 - sum(point[k] * towards[k] for k in rest), gradient

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


def positive_semidefinite(a):
    """Whether a whole-number matrix (its lower half) is certainly so: A - LL' is dominated by its diagonal, exactly.

    L is a factor of A - 32 in doubles, rounded to multiples of 2^-40; where it comes from does not matter.
    """
    n, factor, bits = len(a), [], 40
    for i in range(n):
        row = []
        for j in range(i):
            row.append((a[i][j] - sum(map(operator.mul, row, factor[j]))) / factor[j][j])
        left = a[i][i] - 32 - sum(x * x for x in row)
        if not left > 0:
            return False
        factor.append([*row, math.sqrt(left)])
    if not all(abs(x) < 2.0**60 for row in factor for x in row):
        return False
    whole = [[round(math.ldexp(x, bits)) for x in row] for row in factor]
    room, off = [], [0] * n
    for i in range(n):
        for j in range(i):
            away = abs((a[i][j] << 2 * bits) - sum(map(operator.mul, whole[i], whole[j])))
            off[i] += away
            off[j] += away
        room.append((a[i][i] << 2 * bits) - sum(x * x for x in whole[i]))
    return all(r >= o for r, o in zip(room, off))


class Search:
    """The nodes of a certificate, and the walk over them."""

    def __init__(self, data, arrays):
        self.data, self.arrays, self.forms = data, arrays, {}
        (self.goal,), (self.grain,) = arrays["goal"], arrays["grain"]
        origins, owner = arrays["origin"], arrays["form"]
        self.node = {origin: k for k, origin in enumerate(origins)}
        need(len(self.node) == len(origins), "two nodes lie at one place")
        need(all(origin < 2 * k for origin, k in self.node.items()), "a node lies above itself")
        self.points, at = {}, 0  # form by form, there client by client, the nodes of the form in their order
        for form in sorted({*owner} - {-1}):
            nodes, clients = [k for k, f in enumerate(owner) if f == form], len(arrays["form_ids"][form])
            end = at + len(nodes) * clients
            need(end <= len(arrays["point"]), "shares are missing")
            for place, k in enumerate(nodes):
                self.points[k] = arrays["point"][at + place : end : len(nodes)]
            at = end
        need(at == len(arrays["point"]), "there are shares of no node")

    def form(self, number):
        """The multipliers of that number."""
        if number not in self.forms:
            names = ("ones", "ids", "diagonal", "nonnegative", "dominated", "better", "room")
            self.forms[number] = Form(self.data, *(self.arrays[f"form_{name}"][number] for name in names))
        return self.forms[number]

    def bound(self, tangent, state):
        """A bound of what agrees with a state, times grain^2; the gradient's entries where the best selection ends."""
        (base, gradient), ones = tangent, [i for i, known in enumerate(state) if known == ONE]
        free = sorted(gradient[i] for i, known in enumerate(state) if known == FREE)
        cut = len(free) - (self.data.m - len(ones))
        return base + self.grain * (sum(gradient[i] for i in ones) + sum(free[cut:])), free[cut], free[cut - 1]

    def walk(self):
        """No selection is worth more than the goal, or the best of those evaluated."""
        best, least, stack = self.goal, self.goal * self.grain**2, [(-1, bytearray(self.data.n), ())]
        while stack:
            origin, state, above = stack.pop()
            if (value := settled(self.data, state)) is not None:
                best = max(best, value)
            elif origin in self.node:
                stack += self.sides(self.node[origin], state, above)
            else:
                closed = any(self.bound(tangent, state)[0] <= least for tangent in reversed(above))
                need(closed, f"no node lies at {origin}, and no tangent closes it")
        return best

    def sides(self, k, state, above):
        """Return the sides that a node leaves open: where, what is fixed there, and the tangents above."""
        form, client = None, self.arrays["client"][k]
        if self.arrays["form"][k] >= 0:
            form = self.form(self.arrays["form"][k])
            tangent = form.tangent(self.points[k], state, self.grain)
            bound, lower, upper = self.bound(tangent, state)
            loss = -((self.goal * self.grain**2 - bound) // self.grain)  # what closes the other side
            if loss <= 0:
                return []
            state, above, gradient = bytearray(state), (*above, tangent), tangent[1]
            for i, known in enumerate(state):
                top = gradient[i] >= lower
                if known == FREE and (gradient[i] - upper if top else lower - gradient[i]) >= loss:
                    state[i] = ONE if top else ZERO
            if not form.imply(state, [i for i, known in enumerate(state) if known != FREE]):
                return []
            if settled(self.data, state) is not None:
                return [(-2, state, ())]
        need(client >= 0, f"node {k} is said to be closed, but its tangent lies above the goal")
        found = []
        for value in (ZERO, ONE):
            child = bytearray(state)
            if child[client] in (FREE, value):
                child[client] = value
                if form is None or form.imply(child, [client]):
                    found.append((2 * k + (value == ONE), child, above))
        return found


def check_dispersion(problem, unit, arrays):
    """Round the problem to the grid, and walk."""
    power = max(unit.numerator, unit.denominator).bit_length() - 1
    data = Data(problem, power if unit > 1 else -power)
    data.order = arrays["order"]
    need(sorted(data.order) == list(range(data.n)), "the order does not name each client once")
    return Search(data, arrays).walk() * data.unit + data.error


def settled(data, state):
    """The value of the only selection left, -inf where there is none; None where there are several."""
    ones, free = ([i for i, known in enumerate(state) if known == each] for each in (ONE, FREE))
    missing = data.m - len(ones)
    if 0 < missing < len(free):
        return None
    return -math.inf if missing < 0 or missing > len(free) else data.value(ones + (free if missing else []))


def attainable(problem, bound):
    """The largest value up to a bound that sums of m (m - 1) / 2 distances and m costs can have, if they are few."""
    m, weight = problem.size, 2 * problem.exact("weight")
    pairs = m * (m - 1) // 2
    distances, spread = distinct([x for i, row in enumerate(problem.distances) for x in row[i + 1 :]])
    costs, cost_spread = distinct([-x for x in problem.costs])
    if max(math.comb(k + len(values) - 1, k) for values, k in ((distances, pairs), (costs, m))) > 100_000:
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


def distinct(values):
    """The largest of each group of nearly equal values, and the widest group."""
    values = sorted({float(v) for v in values}) or [0.0]
    apart = 1e-13 * max(map(abs, values))
    ends = [k for k in range(len(values)) if k + 1 == len(values) or values[k + 1] - values[k] > apart]
    starts = [0, *(k + 1 for k in ends[:-1])]
    widest = max(Fraction(values[b]) - Fraction(values[a]) for a, b in zip(starts, ends))
    return [Fraction(values[b]) for b in ends], widest


def sums(values, count):
    """All sums of so many of the values, with repetition."""
    found = {0: {0}}
    for value in values[:-1]:
        larger = {}
        for used, totals in found.items():
            for more in range(count - used + 1):
                larger.setdefault(used + more, set()).update(total + more * value for total in totals)
        found = larger
    return {total + (count - used) * values[-1] for used, totals in found.items() for total in totals}


# -- the verdict ------------------------------------------------------------------------------------------------------


def check(problem, kind, digest, bound, grid, arrays):
    """The bound that is proved, rounded to the safe side; `Refused` where that is not as good as the one claimed."""
    need(digest == problem.digest, "the certificate is about another problem")
    need(isinstance(bound, float) and math.isfinite(bound), f"the bound {bound!r} is no number")
    found, unit = validated(kind, problem, grid, arrays), Fraction(2) ** grid
    sign, claim = 1 if kind in ("dispersion", "points") else -1, Fraction(bound)
    try:
        proved = globals()[f"check_{kind.replace('-', '_')}"](problem, unit, found)
        if kind == "dispersion" and proved > claim:
            proved = attainable(problem, proved)
        nearest = float(proved)
    except ArithmeticError as error:
        raise Refused(f"the numbers leave the range of those computed with: {error}") from error
    safe = nearest if sign * Fraction(nearest) >= sign * proved else math.nextafter(nearest, sign * math.inf)
    need(sign * proved <= sign * claim, f"the certificate claims {bound!r}, but proves only {safe!r}")
    return safe


def check_files(problem_path, certificate_path):
    """The same for two files; the certificate's must have the digest that it states."""
    problem, (header, arrays) = Problem(*read_npz(problem_path)), read_npz(certificate_path)
    need(header.get("format") == "solvers-certificate/1", f"{certificate_path} is no certificate")
    kind, about, bound, grid = header["kind"], header["problem"], float.fromhex(header["bound"]), header["grid"]
    text = hashlib.sha256(f"{kind} {about} {bound.hex()} {grid}".encode())
    for name in sorted(arrays):
        code, shape, _, values = arrays[name]
        need(code[1] in "iu" and len(shape) == 1, f"array {name} must hold whole numbers, and have one dimension")
        need(not values or max(values) <= ANY, f"array {name} holds what 64 bits do not")
        wide = b"".join(v.to_bytes(8, "little", signed=True) for v in values)
        text.update(f" {name} {shape} ".encode() + wide)
    need(text.hexdigest() == header["digest"], f"{certificate_path} was changed or damaged: its digest is another")
    return check(problem, kind, about, bound, grid, {name: values for name, (_, _, _, values) in arrays.items()})


def main(arguments):
    """Print the verdict, and return the exit code."""
    if len(arguments) != 2:
        print(__doc__)
        return 2
    try:
        print(f"verified: the bound {check_files(*arguments)!r} is proved")
    except Refused as error:
        print(f"REFUSED: {error}")
        return 3
    except (OSError, ValueError, LookupError, TypeError, SyntaxError, RuntimeError, EOFError, MemoryError) as error:
        print(f"a file cannot be read: {error}")
        return 2
    except (zipfile.BadZipFile, zlib.error, struct.error) as error:
        print(f"a file cannot be read: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
