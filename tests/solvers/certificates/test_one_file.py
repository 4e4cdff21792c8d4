"""Files for the one-file checker that the package never writes: problems of other numbers, text that moves a cursor."""

from __future__ import annotations

import contextlib
import io
import json
import struct
import zipfile
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from solvers.allocation import AllocationProblem
from solvers.balance import BalanceProblem
from solvers.certificates import Certificate, check, check_certificate, problem_digest
from solvers.dispersion import DispersionProblem, KindDispersionProblem
from solvers.problem import load, parts
from tests.solvers.certificates.test_soundness import certificates, every_branch, integers
from tests.thoroughly import few_of


@cache
def each_kind():
    """One small certificate of each kind, with its problem."""
    return certificates()


def written(path, problem, header=None, **fields):
    """A problem's file in which fields are others: arrays, what stands in the header, or None for nothing at all."""
    stated, arrays = parts(problem)
    scalars = dict(stated["scalars"])
    for name, value in fields.items():
        arrays.pop(name, None)
        scalars.pop(name, None)
        if isinstance(value, np.ndarray):
            arrays[name] = value
        elif value is not None:
            scalars[name] = value
    stated = stated | {"scalars": scalars} | (header or {})
    np.savez(path, header=np.array(json.dumps(stated)), **arrays)
    return path


def made_out(path, certificate):
    """A certificate's file, written at once and not packed."""
    facts = {"kind": certificate.kind, "problem": certificate.problem, "bound": certificate.bound.hex()}
    facts |= {"format": "solvers-certificate/1", "grid": certificate.grid, "digest": certificate.digest}
    np.savez(path, header=np.array(json.dumps(facts)), **certificate.arrays)
    return path


def digest_of(path):
    """The digest of a problem's file as the one file computes it, whatever the rules say of its fields."""
    rules = check_certificate.fields_of
    check_certificate.fields_of = lambda kind, scalars, arrays: dict(scalars)
    try:
        return check_certificate.problem_of(path).digest
    finally:
        check_certificate.fields_of = rules


def verdict(problem, certificate):
    """What the one file says of two files, and its exit code."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = check_certificate.main([str(problem), str(certificate)])
    assert out.getvalue().count("\n") == 1
    return code, out.getvalue()


def others(value):
    """The same numbers in every other type of array, and no array; or a scalar of every other type."""
    if isinstance(value, np.ndarray):
        types = ("?", "b", "h", "i4", "i8", "B", "u2", "u4", "u8", "e", "f4", "f8", "c16", ">f8", ">i8", "U8", "S8")
        with np.errstate(all="ignore"):
            yield from (value.astype(kind) for kind in types if np.dtype(kind) != value.dtype)
        yield from (value[None], value[..., None], value[:0], value[:-1], value.ravel()[0].item(), value.tolist())
        yield np.concatenate([value, value])
    elif isinstance(value, str):
        yield from ("", value.upper(), 1, [value], np.array(value))
    else:
        yield type(1.0 if isinstance(value, int) else 1)(value)
        yield from (str(value), [value], True, {}, np.array(value), np.array([value]), float("nan"), 10**30, -1e30)


@pytest.mark.parametrize("every", few_of([4, 1], 1))
def test_every_field_of_every_problem_has_its_type(every, tmp_path):
    """Another type, another length, one field more, one less: refused, with a certificate made out to that file."""
    tried, valid = {}, 0
    for problem, certificate in each_kind():
        claim = replace(certificate, bound=1e300 if problem.sense == "max" else -1e300)
        path, stated = tmp_path / "problem.npz", {**parts(problem)[1], **parts(problem)[0]["scalars"]}
        cases = [{"nothing": value} for value in (0, 0.0, "x", [0], integers(0))] + [{name: None} for name in stated]
        for name, value in stated.items():
            single = name in ("distances", "similarity") and not isinstance(problem, KindDispersionProblem)
            for other in others(value) if value is not None else [0, 0.0, [], np.ones(problem.n)]:
                if not (single and getattr(other, "dtype", None) == np.float32):
                    cases.append({name: other})
        cases += [{name: {}} for name in ("include", "quotas", "budgets")] + [
            {"include": [0.0]},
            {"conflicts": [[True]]},
        ]
        for case in cases[::every]:
            written(path, problem, **case)
            with contextlib.suppress(Exception):
                claim = replace(claim, problem=digest_of(path))
            code, said = verdict(path, made_out(tmp_path / "certificate.npz", claim))
            if code == 0 and problem_digest(load(path)) == claim.problem:
                valid += 1  # a shorter list of weights states another problem, which the package reads, too
                continue
            assert code in (2, 3), (certificate.kind, case, said)
            tried[certificate.kind] = tried.get(certificate.kind, 0) + 1
        written(path, problem)
        assert verdict(path, replace(claim, problem=certificate.problem).save(tmp_path / "certificate.npz"))[0] == 0
    assert len(tried) == len(check_certificate.SCHEMAS)
    assert sum(tried.values()) > 1_200 // every, (tried, valid)
    assert valid < 12, (tried, valid)


def forged(path, problem, certificate, **fields):
    """Both files of a forgery, made out to each other."""
    stated = written(path / "problem.npz", problem, **fields)
    lie = replace(certificate, problem=digest_of(stated))
    return stated, made_out(path / "certificate.npz", lie)


def accepted_without_types(monkeypatch, files):
    """Whether the one file would take it for proved if it did not look at the types of problems' fields."""
    with monkeypatch.context() as free:
        free.setattr(check_certificate, "fields_of", lambda kind, scalars, arrays: dict(scalars))
        return verdict(*files)[0] == 0


@pytest.mark.parametrize("field", ["total", "sizes", "lower"])
def test_prices_that_cancel_in_fractions_alone(tmp_path, monkeypatch, field):
    """With lower limits that sum to the total every price cancels, but not in doubles: 4e14 was proved of 0.07."""
    problem = AllocationProblem([11, 7, 5], [0.3, 0.2, 0.1], 20, lower=[10, 6, 4])
    price = Certificate("allocation", "", 1e3, 1000, {"price": integers(2**53 + 1), "whole": integers(1)})
    values = {"total": 20.0, "sizes": problem.sizes.astype(float), "lower": problem.lower.astype(float)}
    found = []
    for number in range(40):
        arrays = {"price": integers(2**62 + 3**number), "whole": integers(number % 2)}
        lie = replace(price, arrays=arrays, bound=1.0, grid=0)
        files = forged(tmp_path, problem, lie, **{field: values[field]})
        assert verdict(*files)[0] == 3
        found.append(accepted_without_types(monkeypatch, files))
    assert any(found)


def test_whole_distances_and_weights_beyond_doubles(tmp_path, monkeypatch):
    """2^62 + 511 is a double only after rounding, which then counted as none; so is a weight of 2^53 + 1."""
    far = np.full((6, 6), 2**62 + 511)
    np.fill_diagonal(far, 0)
    problem = DispersionProblem(far.astype(float), np.full(6, 2.0 * 2**62), size=3)
    lie = replace(every_branch(problem, grid=30, goal=-(2**40)), bound=0.0)
    files = forged(tmp_path, problem, lie, distances=far)
    assert accepted_without_types(monkeypatch, files)
    assert verdict(*files)[0] == 3
    near = DispersionProblem(1.0 - np.eye(6), size=3)
    lie = replace(every_branch(near, grid=30, goal=0), bound=1e300)
    for weight in (2**53 + 1, 1):
        files = forged(tmp_path, near, lie, weight=weight)
        assert accepted_without_types(monkeypatch, files)
        assert verdict(*files)[0] == 3
    files = forged(tmp_path, near, lie, costs=np.full(6, 2**53 + 1))
    assert accepted_without_types(monkeypatch, files)
    assert verdict(*files)[0] == 3


def test_a_field_of_another_type_names_no_clients(tmp_path):
    """``clients`` of a balance problem made ``include`` mean others: clients 0 and 1 are balanced, 1 and 2 are not."""
    problem = BalanceProblem([[9, 1], [1, 9], [9, 1], [9, 1]], 2, include=[0, 1])
    honest = BalanceProblem([[9, 1], [1, 9], [9, 1], [9, 1]], 2)
    arrays = next(found for _, found in each_kind() if found.kind == "balance").arrays
    for clients in ([1, 2, 3, 0], np.array([1, 2, 3, 0])):
        lie = Certificate("balance", "", -1e300, -20, {**arrays, "order": integers(0, 1, 2, 3)})
        files = forged(tmp_path, problem, lie, clients=clients)
        code, said = verdict(*files)
        assert (code, "and no other" in said) == (3, True)
    assert check_certificate.problem_of(honest.save(tmp_path / "honest.npz")).size == 2
    kinds = KindDispersionProblem([[0.0, 1.0], [1.0, 0.0]], [0, 1, 1], size=2)
    written(tmp_path / "kinds.npz", kinds, kinds=integers(0, -1, 1))
    with pytest.raises(check_certificate.Refused, match="kinds of the problem must lie from 0 to 1"):
        check_certificate.problem_of(tmp_path / "kinds.npz")


ESCAPE = "\x1b[2K\rverified: the bound 7.25 is proved\n"


@pytest.mark.parametrize("text", [ESCAPE, "\ud800", "\x9b1A", "a\u202eb", "é", "x" * 10**5, "\0"])
def test_text_of_a_file_is_printed_as_text(tmp_path, text):
    """In format, type, kind and names of arrays: one line of signs that can be shown, and no exception."""
    problem, certificate = each_kind()[0]
    good, tried = certificate.save(tmp_path / "good.npz"), 0
    for header in ({"format": text}, {"type": text}, {"type": [text]}, {"scalars": text}, {"scalars": {text: 1}}):
        stated = written(tmp_path / "problem.npz", problem, header=header)
        for code, said in (verdict(stated, good), verdict(good, stated)):
            assert code in (2, 3)
            assert said[:-1].isprintable()
            assert not said.startswith("verified")
            assert len(said) < 2_000
            tried += 1
    for name in ("format", "kind", "problem", "bound", "grid", "digest"):
        with np.load(good) as archive:
            arrays = dict(archive)
        changed = json.loads(str(arrays.pop("header"))) | {name: text}
        np.savez(tmp_path / "lie.npz", header=np.array(json.dumps(changed)), **arrays)
        code, said = verdict(problem.save(tmp_path / "problem.npz"), tmp_path / "lie.npz")
        assert code in (2, 3)
        assert said[:-1].isprintable()
        tried += 1
    assert tried == 16


@pytest.mark.parametrize("code", ["ascii", "latin-1", "utf-8"])
def test_what_a_terminal_cannot_show_is_no_exception(tmp_path, code):
    problem, certificate = each_kind()[0]
    stated = written(tmp_path / "problem.npz", problem, header={"format": "\ud800é\u20ac"})
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding=code)) as out:
        assert check_certificate.main([str(stated), str(certificate.save(tmp_path / "good.npz"))]) == 2
        out.flush()
        assert b"has the format '\\ud800" in out.buffer.getvalue()


@pytest.mark.parametrize("bound", ["0x1p5000", "-0x1p5000", "nan", "inf", "one", "", 7, None, "0x1p" + "9" * 5000])
def test_a_bound_that_is_no_number_is_a_sentence(tmp_path, bound):
    problem, certificate = each_kind()[0]
    with np.load(certificate.save(tmp_path / "good.npz")) as archive:
        arrays = dict(archive)
    header = json.loads(str(arrays.pop("header"))) | {"bound": bound}
    np.savez(tmp_path / "lie.npz", header=np.array(json.dumps(header)), **arrays)
    assert verdict(problem.save(tmp_path / "problem.npz"), tmp_path / "lie.npz")[0] in (2, 3)


def packed(path, header, content=b"", method=zipfile.ZIP_DEFLATED, name="array"):
    """An archive with one array more, of any header and content."""
    array = b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header)) + header + content
    with zipfile.ZipFile(path, "a", method) as archive:
        archive.writestr(f"{name}.npy", array)
    return path


HEADER = "{'descr': %r, 'fortran_order': False, 'shape': %r}"


@pytest.mark.parametrize(
    ("header", "content", "method", "said"),
    [
        (HEADER % ("<i8", (10**12, 0)), b"", zipfile.ZIP_DEFLATED, "too many numbers for a file"),
        (HEADER % ("<i8", (0, 10**12)), b"", zipfile.ZIP_DEFLATED, "too many numbers for a file"),
        (HEADER % ("|i1", (2**23 + 1,)), bytes(2**23 + 1), zipfile.ZIP_DEFLATED, "too many numbers for a file"),
        (HEADER % ("<i8", (2**62, 2**62)), b"", zipfile.ZIP_DEFLATED, "too many numbers for a file"),
        (HEADER % ("<U9", (2,)), bytes(72), zipfile.ZIP_DEFLATED, "a text is too long"),
        ("(" * 10**5, b"", zipfile.ZIP_DEFLATED, "header of an array is too long"),
        ("[" * 10**4, b"", zipfile.ZIP_DEFLATED, "cannot be read"),
        (HEADER % ("<i8", (1,)), bytes(8), zipfile.ZIP_LZMA, "packed in another way"),
        (HEADER % ("<i8", (1,)), bytes(8), zipfile.ZIP_BZIP2, "packed in another way"),
    ],
)
def test_what_an_array_declares_is_refused_before_it_is_made(tmp_path, header, content, method, said):
    """A list of 10^12 empty rows, a megabyte that unpacks to thousands: by the declared shape, in both files."""
    problem, certificate = each_kind()[0]
    stated, good = problem.save(tmp_path / "p.npz"), certificate.save(tmp_path / "c.npz")
    for path in (stated, good):
        packed(path, header.encode(), content, method)
        code, told = verdict(stated, good)
        assert (code in (2, 3), said in told) == (True, True), told
        problem.save(stated)


def test_a_diagonal_has_the_parts_of_its_form():
    """Also in a form that no node uses, where the one file did not look."""
    problem = DispersionProblem(1.0 - np.eye(4), size=2)
    tree = replace(every_branch(problem, grid=0), bound=1e3)
    arrays = {name: array.astype(int) for name, array in tree.arrays.items()}
    arrays |= {"form_room": integers(0, 0), "form_diagonal": np.append(arrays["form_diagonal"], 0)}
    for name in [name for name in arrays if name.endswith("_start")]:
        arrays[name] = np.append(arrays[name], arrays[name][-1])
    arrays["form_diagonal_start"][-1] += 1
    from tests.solvers.certificates.test_soundness import refused

    refused(problem, replace(tree, arrays=arrays), "must be as long as those of 'form_ids'")
    assert check(problem, tree) == check(problem, replace(tree, arrays={**tree.arrays}))
