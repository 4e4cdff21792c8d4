"""Bombs, damage and nesting: every reader compares what a file declares with the file, and says one sentence."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import resource
import struct
import subprocess
import sys
import zipfile
from contextlib import contextmanager

import numpy as np
import pytest

from solvers import InvalidProblem, Solution, load, solve
from solvers.certificates import Certificate
from solvers.dispersion import DispersionProblem, read_densest_subgraph, read_points
from solvers.dispersion.models import READERS, read_qubo
from solvers.errors import CertificateError
from solvers.instances.library import unpack
from solvers.reading import (
    Unreadable,
    expand,
    parse_json,
    parse_toml,
    read_arrays,
    read_bytes,
    read_matrix,
    read_text,
    unpacked_limit,
)

#: Bytes that no reader of a bomb may ask for beyond what the process has.
ROOM = 2**29


@contextmanager
def little_memory():
    """Let this process have half a gigabyte more, so that a bomb is a MemoryError and not a machine that swaps."""
    with open("/proc/self/statm") as stream:
        have = int(stream.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (have + ROOM, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def header(shape, dtype="<f8"):
    text = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def packed(**members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return stream.getvalue()


def encrypted():
    """An archive whose member says that it is encrypted, in both of its headers."""
    data = bytearray(packed(a=header((1,)) + bytes(8)))
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + place] |= 1
    return bytes(data)


ARCHIVES = {
    "a shape beyond the data": (packed(a=header((10**9,)) + bytes(8)), "declares 8000000000 bytes .* and has 8"),
    "a shape beyond numbers": (packed(a=header((2**40, 2**40)) + bytes(8)), "declares"),
    "data beyond the shape": (packed(a=header((1,)) + bytes(16)), "declares 8 bytes .* and has 16"),
    "texts without letters": (packed(a=header((10**12,), "<U0")), "numbers and text are read"),
    "objects": (packed(a=header((1,), "|O") + bytes(8)), "numbers and text are read"),
    "encrypted": (encrypted(), "its member 'a.npy' is encrypted"),
    "no array": (packed(a=b"hello"), "magic"),
    "truncated": (packed(a=header((1,)) + bytes(8))[:-30], "zip"),
    "nothing": (b"", "zip"),
}


@pytest.mark.parametrize(("data", "sentence"), ARCHIVES.values(), ids=ARCHIVES)
def test_an_archive_that_is_not_what_it_declares(data, sentence, tmp_path):
    with pytest.raises(Unreadable, match=sentence), little_memory():
        read_arrays(data)
    (tmp_path / "file.npz").write_bytes(data)
    with pytest.raises(InvalidProblem, match=r"file.npz is not a problem file"):
        load(tmp_path / "file.npz")
    with pytest.raises(InvalidProblem, match=r"file.npz is not a solution file"):
        Solution.load(tmp_path / "file.npz")
    with pytest.raises(CertificateError):
        Certificate.load(tmp_path / "file.npz")
    with pytest.raises(InvalidProblem):
        unpack(lzma.compress(data), "file.xz")


def test_an_archive_that_unpacks_to_too_much(monkeypatch):
    bomb = packed(a=header((2**21,)) + bytes(2**24))
    assert len(bomb) < 2**15
    assert read_arrays(bomb)["a"].size == 2**21  # what is allowed at the usual limit
    monkeypatch.setenv("SOLVERS_UNPACKED_LIMIT", "1000000")
    with pytest.raises(Unreadable, match=r"it unpacks to 167\d+ bytes, from \d+; at most \d+ are read"):
        read_arrays(bomb)
    assert unpacked_limit(10**9) == 200 * 10**9
    monkeypatch.setenv("SOLVERS_UNPACKED_LIMIT", "²")
    assert unpacked_limit(10) == 2**30


@pytest.mark.parametrize(("kind", "compress"), [("gzip", gzip.compress), ("xz", lzma.compress)])
def test_a_stream_that_unpacks_to_too_much(kind, compress):
    assert expand(compress(b"hello"), kind) == b"hello"
    with pytest.raises(Unreadable, match="it unpacks to more than 100000 bytes"):
        expand(compress(bytes(10**6)), kind, least=10**5, times=1)
    with pytest.raises(Unreadable):
        expand(compress(os.urandom(1000))[:-20], kind)


def test_arrays_come_back_to_the_bit_and_may_be_written_to():
    rng = np.random.default_rng(0)
    kept = {
        "matrix": rng.random((3, 4)),
        "columns": np.asfortranarray(rng.random((3, 4))),
        "empty": np.zeros((0, 3)),
        "number": np.array(2.5),
        "text": np.array("täxt"),
        "whole": np.arange(5, dtype="<i2"),
        "truth": np.array([True, False]),
    }
    stream = io.BytesIO()
    np.savez_compressed(stream, **kept)
    found = read_arrays(stream.getvalue())
    assert list(found) == list(kept)
    for name, array in kept.items():
        np.testing.assert_array_equal(found[name], array)
        assert (found[name].dtype, found[name].flags.writeable) == (array.dtype, True)
    assert found["columns"].flags.f_contiguous


def test_a_matrix_is_as_large_as_its_file(tmp_path):
    (tmp_path / "bomb.npy").write_bytes(header((10**6, 10**6)) + bytes(64))
    with (
        pytest.raises(InvalidProblem, match=r"bomb.npy does not hold points: .* declares 8\d+ bytes"),
        little_memory(),
    ):
        read_points(tmp_path / "bomb.npy")
    (tmp_path / "words.csv").write_text("a,b\n")
    with pytest.raises(Unreadable, match="could not convert"):
        read_matrix(tmp_path / "words.csv")


@pytest.mark.parametrize("head", ["3000000 1", "1001 1", "-5 1", "9" * 400 + " 1"])
def test_a_graph_has_no_more_vertices_than_words(tmp_path, head):
    (tmp_path / "graph.dat").write_text(f"{head}\n1 2\n")
    with pytest.raises(InvalidProblem, match="its first line promises"), little_memory():
        read_densest_subgraph(tmp_path / "graph.dat", 2)


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("few.qubo", "p qubo 0 20000 1 0\n0 0 1\n", "20000 variables, in 3 words"),
        ("few.qubo", "0 19999 1\n", "20000 variables, in 3 words"),
        ("few.qplib", "few\nQBN\nmaximize\n20000\n", "20000 variables, in 3 words"),
        ("few.qplib", "few\nQBL\nmaximize\n9\n1000000000\n", "1000000000 constraints, in 4 words"),
    ],
)
def test_a_model_has_no_more_variables_than_words(tmp_path, name, text, what):
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidProblem, match=f"{name} declares {what}"), little_memory():
        READERS[tmp_path.joinpath(name).suffix](tmp_path / name, 2)


def test_a_sparse_qubo_may_be_small(tmp_path):
    (tmp_path / "few.qubo").write_text("1000 1\n0 0 1\n")
    assert read_qubo(tmp_path / "few.qubo", 2).n == 1000


def test_a_sparse_graph_may_be_small(tmp_path):
    (tmp_path / "graph.dat").write_text("1000 1\n1 2\n")
    assert read_densest_subgraph(tmp_path / "graph.dat", 2).n == 1000


@pytest.mark.parametrize("parse", [parse_json, lambda text: parse_toml(f"a = {text}")])
@pytest.mark.parametrize("depth", [101, 5000, 200_000])
def test_deep_values_are_refused(parse, depth):
    with pytest.raises(Unreadable, match="more than 100 levels deep"):
        parse("[" * depth + "]" * depth)
    assert parse("[" * 50 + "]" * 50)


def test_dotted_keys_are_deep_too():
    with pytest.raises(Unreadable, match="more than 100 levels deep"):
        parse_toml(".".join("a" * 200) + " = 1")
    assert parse_json(json.dumps([[1.5, {"a": [2.5]}]] * 200))


@pytest.mark.parametrize("text", ['"a\\u0000b"', '"\\U00000000"', "'\0'"])
def test_a_nul_is_refused(text):
    with pytest.raises(Unreadable):
        parse_toml(f"a = {text}")


def test_numbers_of_thousands_of_digits_and_other_bytes(tmp_path):
    with pytest.raises(Unreadable):
        parse_json("9" * 10_000)
    (tmp_path / "latin.txt").write_bytes("ä".encode("latin-1"))
    with pytest.raises(Unreadable, match="no UTF-8 text: byte 0 is 0xe4"):
        read_text(tmp_path / "latin.txt")


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(Unreadable, match="a pipe, a device or a folder"):
            read_bytes(path)
    with pytest.raises(Unreadable):
        read_bytes(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "nothing")


@pytest.mark.parametrize(
    "change",
    [
        {"objective": "5"},
        {"objective": 10**400},
        {"status": "splendid"},
        {"seconds": None},
        {"trace": [[1, 2]]},
        {"trace": [["a", 2, 3]]},
        {"trace": 5},
        {"details": 3},
        {"problem": []},
        {"method": ["greedy"]},
        {"certificate": {"kind": 1}},
        {"seed": True},
    ],
)
def test_a_solution_says_what_a_solution_says(tmp_path, change):
    rng = np.random.default_rng(0)
    distances = np.triu(rng.random((4, 4)), 1)
    solution = solve(DispersionProblem(distances + distances.T, np.zeros(4), size=2), "greedy")
    solution.save(tmp_path / "good.npz")
    arrays = read_arrays(tmp_path / "good.npz")
    values = json.loads(str(arrays.pop("header")))
    np.savez(tmp_path / "bad.npz", header=np.array(json.dumps(values | change)), **arrays)
    with pytest.raises(InvalidProblem, match=r"bad.npz is not a "):
        Solution.load(tmp_path / "bad.npz")
    for x in (np.array(["a"] * 4), np.array([np.nan] * 4)):
        np.savez(tmp_path / "bad.npz", header=np.array(json.dumps(values)), **arrays | {"x": x})
        with pytest.raises(InvalidProblem, match="its x must hold finite numbers"):
            Solution.load(tmp_path / "bad.npz")


def test_reading_loads_no_more_than_numpy():
    code = "import sys; import solvers.reading; sys.exit(any(m in sys.modules for m in ('scipy', 'pandas', 'numba')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("family", ["../x", "coverage", None, 3])
def test_the_family_in_a_header_is_that_of_the_type(family, tmp_path):
    problem = DispersionProblem(np.ones((3, 3)) - np.eye(3), np.zeros(3), size=2)
    path = problem.save(tmp_path / "problem.npz")
    arrays = dict(np.load(path))
    named = json.loads(str(arrays["header"])) | {"family": family}
    np.savez(path, **arrays | {"header": np.array(json.dumps(named))})
    with pytest.raises(InvalidProblem, match="a DispersionProblem is of family 'dispersion'"):
        load(path)


@pytest.mark.parametrize("parse", [parse_json, parse_toml])
def test_whole_numbers_of_thousands_of_digits_have_a_sentence(parse):
    text = "9" * 5000
    with pytest.raises(Unreadable, match=r"^it holds a whole number of more than 4300 digits$"):
        parse('{"n": ' + text + "}" if parse is parse_json else "n = " + text)
    with pytest.raises(Unreadable, match=r"(?i)expect|invalid"):
        parse("{]" if parse is parse_json else "= 3")
