"""The second checker, one file of the standard library: it says what the first one says, of everything."""

from __future__ import annotations

import ast
import importlib
import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from solvers import instances, solve
from solvers.certificates import Certificate, CertificateError, check, check_certificate, problem_digest
from solvers.certificates.exact.concave import FORM, Rounded, WholeForm, part_of
from solvers.certificates.exact.dispersion import FREE, ONE, ZERO, CheckedForm
from solvers.certificates.schema import POINT, SCHEMAS, validated
from solvers.dispersion import DispersionProblem, PointDispersionProblem
from solvers.instances import ledger
from solvers.instances.library import FOLDER
from solvers.problem import FAMILIES, Problem, parts
from tests.solvers.certificates.test_one_file import forged
from tests.solvers.certificates.test_soundness import (
    SHAPES,
    as_read,
    certificates,
    every_branch,
    one_node,
    second,
    uniform,
)
from tests.thoroughly import few_of


def first(problem, certificate):
    try:
        return check(problem, certificate)
    except CertificateError as error:
        return "concave" if "concave" in str(error) or "eigenvalue" in str(error) else None


def agree(problem, certificate):
    """Both refuse, or both prove the same; how far a diagonal must be raised they may see differently."""
    one, other = first(problem, certificate), second(problem, certificate)
    return one == "concave" or one == other


def test_it_needs_nothing_but_the_standard_library():
    tree = ast.parse(Path(check_certificate.__file__).read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= sys.stdlib_module_names
    assert {"math", "fractions"} <= imported


SMALL = ("optimization-error", "total-error", "capping", "cutoff")


def test_every_kind_is_known_to_both():
    from solvers.certificates.checking import CHECKERS
    from solvers.certificates.schema import SCHEMAS

    assert set(CHECKERS) < set(SCHEMAS) == set(check_certificate.SCHEMAS)
    assert set(SCHEMAS) - set(CHECKERS) == {"points", "schedule", "allocation", "exclusion", *SMALL}


def test_both_state_the_same_ranges():
    """Of every array of every kind: one number more in one of them is a certificate on which they disagree."""
    from solvers.certificates import schema

    ends = {"last": "n", "last form": "forms"}
    for family in FAMILIES:
        importlib.import_module(f"solvers.{family}")
    senses = {each.__name__: each.sense for each in Problem.types()}
    for kind, rules in schema.SCHEMAS.items():
        sign, about, _, widest, arrays = check_certificate.SCHEMAS[kind]
        assert sign == (1 if senses[about] == "max" else -1)
        assert (about, (-widest, widest)) == (rules.about, rules.grid)
        assert set(arrays) == set(rules.arrays)
        for name, rule in rules.arrays.items():
            least, most, _, *group = arrays[name]
            assert (name, least, most) == (name, rule.least, ends.get(rule.most, rule.most))
            assert (name, group) == (name, [rule.group] if rule.parts else [])
    for limit in ("ENTRIES", "POINT", "CLIENTS", "MULTIPLIER", "ROOM"):
        assert getattr(check_certificate, limit) == getattr(schema, limit)


CERTIFIED = sorted(
    (path.stem for path in (FOLDER / "certificates").glob("*.npz")),
    key=lambda name: (instances.info(name).n > 100, instances.info(name).family, name),
)
#: One of each family and kind, and a tree, each some seconds at most.
QUICK = [
    "cafed-clustered-n24-r50",
    "e3cs-digits-n30-m5-quota0-r100",
    "fedau-cutoff-digits-n30-t200-r0",
    "fedgs-digits-twolabel-n30-m5-lognormal-r10",
    "fedgs-synthetic-n30-m6-ideal-r5",
    "fedgs-clustered-n100-m20-cafed-r10",
    "fedss-clustered-n24-m6-groups4-r12",
    "theorem2-chi2-clustered-n24-r30",
    "theorem2-opt-clustered-n24-r30",
    "theorem2-tv-clustered-n24-r30",
]


@pytest.mark.parametrize("name", few_of([*QUICK, *sorted(set(CERTIFIED) - set(QUICK))], len(QUICK)))
def test_both_verify_the_ledger(name, tmp_path):
    """From the very files: its own reading of archives, its own digests, the same bound to the last bit."""
    problem, path = instances.load(name), FOLDER / "certificates" / f"{name}.npz"
    found = check_certificate.check_files(problem.save(tmp_path / "problem.npz"), path)
    assert found == check(problem, ledger.certificate(name))


def test_both_take_distances_without_weight_for_exact():
    """Products that are 0 were never rounded: only the costs are."""
    problem = replace(uniform(0, 4, 2, weight=0.0), costs=np.array([0.25, 0.5, 1.0, 2.0]))
    tree = replace(every_branch(problem, grid=-2, goal=-3), bound=-0.75)
    assert first(problem, tree) == second(problem, tree) == -0.75


@pytest.mark.parametrize(("bits", "grain"), [(8, 12), (8, 1 << 20), (28, 1 << 12), (38, 1 << 20)])
def test_both_see_the_same_tangent_however_large_its_numbers(bits, grain):
    """In 64 bits and beyond: worth the same at every selection, wherever it is taken and whoever is fixed."""
    rng = np.random.default_rng(bits)
    h = np.triu(rng.integers(1, 2**bits, (7, 7)), 1).astype(float)
    problem = DispersionProblem(h + h.T, rng.integers(-(2**bits), 2**bits, 7).astype(float), size=4)
    triples = np.array([(0, 1, 2**bits - 1), (3, 1, 5), (4, 2, 2 ** (bits - 1))]).ravel()
    one = one_node(problem, bound=1e300, grid=0, goal=2**60, room=2 ** (bits + 4), triples=triples, grain=grain)
    stated, arrays = as_read(problem), {name: array.tolist() for name, array in one.arrays.items()}
    given = check_certificate.validated("dispersion", stated, 0, arrays)
    other = check_certificate.Form(check_certificate.Data(stated, 1, 0, given.order), given, 0)
    part = {name: part_of(validated(SCHEMAS["dispersion"], problem, 0, one.arrays), f"form_{name}", 0) for name in FORM}
    form = CheckedForm(WholeForm(Rounded.of(problem, 0), part, given.form_room[0]), np.zeros((0, 2), dtype=int), grain)
    for state in ([FREE] * 7, [ONE, ONE, *[FREE] * 5], [FREE, ONE, FREE, ONE, FREE, ZERO, FREE]):
        state = np.array(state, dtype=np.int8)
        for shares in ((1, 1, 1, 1, 0, 0, 0), (0.5, 1, 0.25, 1, 0.75, 0, 0.5), (0.75, 0.5, 0.5, 0.5, 0.5, 0.5, 0.75)):
            point = (np.array(shares) * grain).astype(int)
            tangent, (base, slope) = form.tangent(point, state), other.tangent(point.tolist(), bytes(state), grain)
            worths = []
            for chosen in map(list, itertools.combinations(range(7), 4)):
                if np.isin(np.flatnonzero(state == ONE), chosen).all() and not (state[chosen] == ZERO).any():
                    worths.append(base + grain * sum(slope[i] for i in chosen))
                    assert tangent.base + grain * sum(tangent.gradient[chosen].tolist()) == worths[-1]
                    x = np.isin(np.arange(7), chosen).astype(int)
                    assert worths[-1] >= grain**2 * int(problem.objective(x))
            assert tangent.order(state, 4)[0] == max(worths)


def test_it_runs_by_itself(tmp_path):
    """Alone in a folder, without this package: exit codes 0, 3 and 2, and a sentence."""
    script = tmp_path / "check_certificate.py"
    script.write_bytes(Path(check_certificate.__file__).read_bytes())
    name = "fedgs-digits-twolabel-n30-m5-lognormal-r10"
    problem = instances.load(name).save(tmp_path / "problem.npz")
    good = ledger.certificate(name)
    liar = replace(good, bound=good.bound - 1e-3).save(tmp_path / "liar.npz")
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes(liar.read_bytes()[:-40])
    for path, code, said in (
        (good.save(tmp_path / "good.npz"), 0, "verified: the bound"),
        (liar, 3, "REFUSED: the certificate claims"),
        (damaged, 2, "cannot be read"),
    ):
        ran = subprocess.run(
            [sys.executable, "-I", str(script), str(problem), str(path)], capture_output=True, text=True, cwd=tmp_path
        )
        assert (ran.returncode, ran.stderr) == (code, "")
        assert said in ran.stdout


def test_files_that_are_missing_or_swapped_are_not_refused_proofs(tmp_path, capsys):
    name = "fedgs-digits-twolabel-n30-m5-lognormal-r10"
    problem, good = instances.load(name).save(tmp_path / "p.npz"), ledger.certificate(name).save(tmp_path / "c.npz")
    solution, none = solve(instances.load(name), "greedy").save(tmp_path / "s.npz"), tmp_path / "none.npz"
    swapped = "c.npz' has the format 'solvers-certificate/1', not 'solvers-problem/1'"
    exported = "s.npz' has the format 'solvers-solution/1', not 'solvers-problem/1' (the problem comes first; 'fed"
    for given, other, said in (
        (problem, none, "none.npz"),
        (none, good, "none.npz"),
        (good, problem, swapped),
        (solution, good, exported),
    ):
        assert check_certificate.main([str(given), str(other)]) == 2
        found = capsys.readouterr().out
        assert found.startswith("a file cannot be read: ")
        assert said in found


def test_files_of_every_form(tmp_path):
    """Arrays of other types and dimensions: refused by both, before any digest."""
    tried = 0
    for problem, certificate in certificates():
        stated = problem.save(tmp_path / "problem.npz")
        for shape, change in SHAPES.items():
            if shape in ("objects", "a list", "nothing", "longer"):
                continue
            name = min(certificate.arrays)
            path = replace(certificate, arrays={**certificate.arrays}).save(tmp_path / "certificate.npz")
            with np.load(path) as archive:
                arrays = {key: archive[key] for key in archive.files}
            arrays[name] = change(arrays[name])
            np.savez(path, **arrays)
            with pytest.raises(CertificateError):
                check(problem, Certificate.load(path))
            assert check_certificate.main([str(stated), str(path)]) in (2, 3)
            tried += 1
    assert tried > 60


#: A field of a problem's file with what no class takes, by the kind of certificate, and what is said of it.
BEYOND = [
    ("exclusion", {"heterogeneity": -0.5}, "heterogeneity of the problem must lie"),
    ("exclusion", {"importance": [0.0, 0.5, 0.5]}, "importance of the problem must lie"),
    ("cutoff", {"horizon": 1}, "horizon of the problem must lie"),
    ("cutoff", {"horizon": 500.0}, "horizon of the problem must be of type int"),
    ("cutoff", {"rates": [0.0, 0.5, 0.9]}, "rates of the problem must lie"),
    ("cutoff", {"rates": [0.2, 0.5, 1.5]}, "rates of the problem must lie"),
    ("optimization-error", {"total": 0.0}, "total of the problem must lie"),
    ("optimization-error", {"variances": [-0.1, 1.0, 1.0, 1.0]}, "variances of the problem must lie"),
    ("optimization-error", {"availability": [0.0, 1.0, 1.0, 1.0]}, "availability of the problem must lie"),
    ("optimization-error", {"availability": [1.0, 1.0, 1.0]}, "variances of the problem has another length"),
    ("total-error", {"bias_weight": -0.3}, "bias_weight of the problem must lie"),
    ("total-error", {"importance": [-0.25, 0.5, 0.5, 0.25]}, "importance of the problem must lie"),
    ("total-error", {"bias": "kl"}, "bias of the problem must be one of"),
    ("total-error", {"bias": "chi2", "excluded": 0.1, "importance": [0.225] * 4}, "importance that is excluded"),
    ("total-error", {"importance": [0.3] * 4}, "importance does not sum to 1"),
    ("allocation", {"total": 17}, "no room for the total"),
    ("allocation", {"lower": [0, 6, 0]}, "a group has no room"),
    ("points", {"metric": "manhattan"}, "metric of the problem must be one of"),
    ("points", {"metric": "hellinger"}, "only Euclidean"),
    ("points", {"weight": -1.0}, "weight of the problem must lie"),
    ("points", {"weight": float("inf")}, "weight of the problem holds what is no number"),
    ("points", {"size": 0}, "size of the problem must lie"),
    ("points", {"size": 7}, "only Euclidean"),
    ("schedule", {"sizes": [6] * 5}, "more than are available"),
    ("schedule", {"sizes": [1]}, "sizes of the problem has another length"),
    ("schedule", {"counts": [-1] * 6}, "counts of the problem must lie"),
    ("balance", {"label_counts": [[-1, 2, 1], *[[1, 1, 1]] * 5]}, "label_counts of the problem must lie"),
    ("balance", {"size": 7}, "out of range"),
    ("coverage", {"size": 7}, "out of range"),
    ("capping", {"weights": [0.0, 1.0, 1.0, 1.0]}, "weights of the problem must lie"),
    ("dispersion", {"weight": -1.0}, "weight of the problem must lie"),
    ("dispersion", {"size": 0}, "size of the problem must lie"),
    ("dispersion", {"size": 8}, "out of range"),
    ("dispersion", {"distances": [[0.0] * 7] * 6}, "distances of the problem has another length"),
    ("dispersion", {"distances": [*[[0.0] * 7] * 6, [-1.0] + [0.0] * 6]}, "distances of the problem must lie"),
    ("dispersion", {"distances": [*[[0.0] * 7] * 6, [0.0] * 6 + [1.0]]}, "zero on the diagonal"),
    ("dispersion", {"distances": [*[[0.0] * 7] * 6, [1.0] + [0.0] * 6]}, "symmetric"),
]


def test_a_problem_that_is_none_is_refused(tmp_path):
    """The one file reads what anyone wrote, and proves nothing of what lies beyond a family's range."""
    found = {certificate.kind: (problem, certificate) for problem, certificate in reversed(certificates())}
    for kind, change, said in BEYOND:
        problem, certificate = found[kind]
        assert second(problem, certificate) is not None
        arrays = parts(problem)[1]
        change = {
            name: np.array(value, arrays[name].dtype) if name in arrays else value for name, value in change.items()
        }
        lie = replace(certificate, bound=1e300 if problem.sense == "max" else -1e300)
        with pytest.raises(check_certificate.Refused, match=said):
            check_certificate.check_files(*forged(tmp_path, problem, lie, **change))


def test_all_points_may_be_chosen():
    """One selection is left, whose value both state."""
    problem = PointDispersionProblem([[0.0], [3.0], [7.0]], [1.0, 0.0, 4.0], size=3, weight=0.5)
    arrays = {"clients": np.arange(3), "shares": np.full(3, POINT)}
    certificate = Certificate("points", problem_digest(problem), 1e300, 0, arrays)
    assert second(problem, certificate) == first(problem, certificate) == pytest.approx(9.0, abs=1e-5)


def test_a_file_that_states_a_great_size_is_not_unpacked(tmp_path):
    """Two thousand million bytes in the archive's directory: refused before any is read."""
    problem, certificate = certificates()[0]
    path, stated = certificate.save(tmp_path / "c.npz"), problem.save(tmp_path / "p.npz")
    data = bytearray(path.read_bytes())
    place = data.rfind(b"PK\x01\x02")
    data[place + 24 : place + 28] = (1 << 31).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(check_certificate.Refused, match="unpacks to more than"):
        check_certificate.check_files(stated, path)


def mutants(certificate, rng, count):
    """Certificates of which one number, one length or the claim is another."""
    names = [name for name, array in certificate.arrays.items() if array.size]
    for _ in range(count):
        arrays = {name: array.astype(np.int64) for name, array in certificate.arrays.items()}
        name = names[int(rng.integers(len(names)))]
        array, place = arrays[name], int(rng.integers(arrays[name].size))
        old = int(array[place])
        match int(rng.integers(10)):
            case 0:
                arrays[name] = np.delete(array, place)
            case 1:
                arrays[name] = np.insert(array, place, old)
            case 2:
                arrays[name] = rng.permutation(array)
            case 3:
                array[place] = array[int(rng.integers(array.size))]
            case _:
                near = [old + 1, old - 1, -old, 2 * old, 0, old + int(rng.integers(-(2**40), 2**40))]
                array[place] = min(max(rng.choice([*near, 2**62 - 1, -(2**63)]), -(2**63)), 2**63 - 1)
        grid = certificate.grid + int(rng.choice([0, 0, 0, 0, 1, -1, 40, 900]))
        yield replace(certificate, arrays=arrays, grid=grid)


def claims(problem, certificate, rng):
    """What is claimed: as much as can be, as before, and more than is true."""
    sign = 1.0 if problem.sense == "max" else -1.0
    anything = 1e300 * sign
    return [anything, certificate.bound, certificate.bound - sign * 10.0 ** rng.uniform(-9, 1) * problem.scale]


@pytest.mark.parametrize("seed", few_of(range(26), 1))
def test_no_mutant_proves_anything_false(seed):
    """Of 25 times 2 000 mutants, over all kinds, none is accepted with a bound that a decision beats."""
    rng = np.random.default_rng(seed)
    found = [(problem, certificate, _optimum(problem)) for problem, certificate in _fuzzed(seed)]
    tried = accepted = 0
    while tried < (2_000 if seed else 400):
        for problem, certificate, best in found:
            sign = 1.0 if problem.sense == "max" else -1.0
            for mutant in mutants(certificate, rng, 5):
                claim = float(rng.choice(claims(problem, certificate, rng)))
                mutant = replace(mutant, bound=claim)
                proved = first(problem, mutant)
                accepted += isinstance(proved, float)
                assert not isinstance(proved, float) or sign * (proved - best) >= -1e-12 * max(1.0, abs(best))
                assert tried % 10 or agree(problem, mutant)
                tried += 1
    assert accepted > tried / 50


def _fuzzed(seed):
    """One certificate of each kind, of problems that differ from seed to seed."""
    from solvers import solve

    rng = np.random.default_rng(seed)
    clients = uniform(seed, 7, int(rng.integers(2, 5)), weight=float(rng.choice([1.0, 0.3])))
    whole = type(clients)(np.rint(4 * clients.distances), rng.integers(0, 4, 7), size=clients.size)
    extra = [(problem, solve(problem, certificate=True).certificate) for problem in (clients, whole)]
    tree = replace(every_branch(whole, grid=0), bound=1e6)
    curved = replace(tree, arrays={**tree.arrays, "curved": np.zeros(1, dtype=np.int64)})
    return [*certificates(seed), *extra, (whole, tree), (whole, curved)]


def _optimum(problem):
    from solvers import solve

    enumerated = {"BalanceProblem", "CoverageProblem", "DispersionProblem", "ExclusionProblem"}
    return solve(problem, "brute-force" if type(problem).__name__ in enumerated else "auto").objective
