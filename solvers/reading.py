"""Guarded reading: what a file declares is compared with the file before memory is taken, and damage is a sentence.

Readers of received data, in all three packages, rest on these functions, but for what other packages open
themselves: images, ``initial_model`` (PyTorch, weights alone) and ``.cqm`` (dimod). They raise `Unreadable` alone (and
`FileNotFoundError` where there is no file), never execute anything, and do not wait for pipes.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import math
import os
import re
import stat
import struct
import sys
import tokenize
import tomllib
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from solvers.options import describe_type, matches

PathLike = str | os.PathLike[str]

#: Bytes that a compressed file may always unpack to, and how many times its own size where that is more. Distance
#: matrices of rounds compress to a hundredth at most; deflate itself reaches a thousandth, which only bombs need.
_UNPACKED, _TIMES = 2**30, 200

#: Levels of tables and lists within each other. Ours have five; Python's own limit, about a thousand, is reached by
#: whatever walks through a value afterwards.
_DEPTH = 100

#: Kinds of NumPy's types that are numbers or text.
_KINDS = "biufcSU"

#: What the decoders of Python and NumPy raise on damaged bytes, as these fall.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    tokenize.TokenError,
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,  # deep nesting and encryption are among them
    SyntaxError,
    TypeError,
    ValueError,
)


#: Control characters but tabs and line ends, marks that turn the direction of text around, and halves of letters.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_HALVES = re.compile("[\ud800-\udfff]")


def check_facts(where: str, table: Any, facts: Mapping[str, Any]) -> None:
    """Check that a table has facts of these types; NaN and infinity are numbers here.

    Parameters
    ----------
    where : str
        What the table is, for the sentence.
    table : object
        What was read.
    facts : mapping of str to type
        The type of each fact, as `solvers.options.matches` takes it.

    Raises
    ------
    Unreadable
        When it is no table, or a fact is missing, of another type, or beyond 64 bits.
    """
    if not isinstance(table, dict):
        raise Unreadable(f"{where} must be a table")
    for key, kind in facts.items():
        if key not in table:
            raise Unreadable(f"{where}: {key} is missing")
        value = table[key]
        if not (matches(value, kind) or (isinstance(value, float) and matches(0.0, kind))):
            raise Unreadable(f"{where}: {key} must be {describe_type(kind)}; got {value!r:.80}")
        if isinstance(value, int) and abs(value) >= 2**63:
            raise Unreadable(f"{where}: {key} is beyond the range of numbers")


def without_controls(text: str) -> str:
    """Return a text without what moves a cursor (but tabs and line ends), changes a colour or turns a line around."""
    return _HALVES.sub("\N{REPLACEMENT CHARACTER}", _CONTROLS.sub("", text))


class Unreadable(ValueError):
    """A file cannot be read as what it should be; the message is the reason, for a sentence that names the file."""


def unpacked_limit(size: int, least: int | None = None, times: int = _TIMES) -> int:
    """Return how many bytes a compressed file of ``size`` bytes may unpack to.

    Parameters
    ----------
    size : int
        Bytes of the file.
    least : int, optional
        Bytes that are always allowed; 1 GiB, or what ``SOLVERS_UNPACKED_LIMIT`` says, if left out.
    times : int
        How many times its own size any file may unpack to.
    """
    if least is None:
        stated = os.environ.get("SOLVERS_UNPACKED_LIMIT", "")
        least = int(stated) if stated.isascii() and stated.isdigit() else _UNPACKED
    return max(least, times * size)


@contextmanager
def _opened(path: PathLike) -> Iterator[IO[bytes]]:
    """Open a regular file; whatever reading it raises is `Unreadable`, and memory that is not there, too."""
    try:
        with open(path, "rb", opener=_without_waiting) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise Unreadable("it is a pipe, a device or a folder, and no file")
            yield stream
    except (FileNotFoundError, Unreadable):
        raise
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from error
    except MemoryError as error:
        raise Unreadable("there is not enough memory for what it holds") from error
    except _DAMAGE as error:
        raise Unreadable(_reason(error)) from error


def _reason(error: Exception) -> str:
    """Say what is wrong with bytes, in words of files."""
    if isinstance(error, zipfile.BadZipFile):
        return "it is no zip archive of arrays (.npz), or a damaged one"
    return str(error) or type(error).__name__


def _without_waiting(path: str, flags: int) -> int:
    """Open as usual, but return at once from a pipe without a writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_bytes(path: PathLike) -> bytes:
    """Read a regular file."""
    with _opened(path) as stream:
        return stream.read()


def read_text(path: PathLike) -> str:
    """Read a regular file of UTF-8 text."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"it is no UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}") from error


def read_json(path: PathLike) -> Any:
    """Read a file of JSON; see `parse_json`."""
    return parse_json(read_text(path))


def parse_json(text: str | bytes) -> Any:
    """Read JSON of bounded depth without NUL characters."""
    try:
        text = text.decode("utf-8") if isinstance(text, bytes) else text
        value = json.loads(text)
    except RecursionError:
        raise Unreadable(f"it is more than {_DEPTH} levels deep") from None
    except ValueError as error:
        raise Unreadable(_why(error)) from error
    _check_nesting(text, value)
    return value


def is_json(path: PathLike) -> bool:
    """Return whether a file begins as a table of JSON does."""
    with _opened(path) as stream:
        return stream.read(64).lstrip().startswith(b"{")


def read_toml(path: PathLike) -> dict[str, Any]:
    """Read a file of TOML; see `parse_toml`."""
    return parse_toml(read_text(path))


def parse_toml(text: str) -> dict[str, Any]:
    """Read TOML of bounded depth without NUL characters."""
    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise Unreadable(f"it is more than {_DEPTH} levels deep") from None
    except ValueError as error:
        raise Unreadable(_why(error)) from error
    _check_nesting(text, value)
    return value


def _why(error: ValueError) -> str:
    """Return the sentence of a parser's error; Python's own, on long numbers, tells readers to raise its limit."""
    if isinstance(error, json.JSONDecodeError | tomllib.TOMLDecodeError | UnicodeDecodeError):
        return str(error)
    return f"it holds a whole number of more than {sys.get_int_max_str_digits()} digits"


def _check_nesting(text: str, value: Any) -> None:
    """Refuse what walks through a value, or a name of a file, would stumble over."""
    if "\0" in text or "\\u0000" in text or "\\U00000000" in text:
        raise Unreadable("it holds a NUL character")
    if text.count("[") + text.count("{") + text.count(".") <= _DEPTH:  # dotted keys of TOML nest, too
        return
    level = [value]
    for _ in range(_DEPTH):
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [item for each in inner for item in each if isinstance(item, dict | list)]
        if not level:
            return
    raise Unreadable(f"it is more than {_DEPTH} levels deep")


def check_archive(archive: zipfile.ZipFile, size: int, most: int | None = None) -> None:
    """Refuse an archive of ``size`` bytes that declares too much, is encrypted, or names a member twice."""
    members = archive.infolist()
    if len({member.filename for member in members}) < len(members):
        raise Unreadable("it names a member twice")
    if secret := [member.filename for member in members if member.flag_bits & 1]:
        raise Unreadable(f"its member {secret[0]!r} is encrypted")
    declared, limit = sum(member.file_size for member in members), most or unpacked_limit(size)
    if declared > limit:
        raise Unreadable(f"it unpacks to {declared} bytes, from {size}; at most {limit} are read")


def read_arrays(source: PathLike | bytes, most: int | None = None) -> dict[str, NDArray[Any]]:
    """Read the arrays of an ``.npz`` archive (a file, or its bytes): numbers and text, as `numpy.savez` writes them.

    Parameters
    ----------
    source : path-like or bytes
        The archive.
    most : int, optional
        Bytes that it may unpack to; `unpacked_limit` if left out.

    Raises
    ------
    Unreadable
        When it is no such archive, is damaged or encrypted, declares more than its members hold, or unpacks to more
        than ``most``.
    """
    opened = _opened_bytes(source) if isinstance(source, bytes) else _opened(source)
    with opened as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        if stream.read(6) == b"\x93NUMPY":
            raise Unreadable("it holds a single array")
        arrays = {}
        with zipfile.ZipFile(stream) as archive:
            check_archive(archive, size, most)
            for member in archive.infolist():
                name, dot, kind = member.filename.rpartition(".")
                if (dot, kind) != (".", "npy"):
                    raise Unreadable(f"its member {member.filename!r} is no array")
                with archive.open(member) as packed:
                    arrays[name] = _array(packed, member.file_size)
        return arrays


def read_matrix(path: PathLike) -> NDArray[Any]:
    """Read an array: a NumPy ``.npy`` file, or text with commas (from a ``#`` on a line is a comment; two dimensions).

    Raises
    ------
    Unreadable
        When the file holds no array of real numbers, or less than it declares.
    """
    if os.fspath(path).endswith(".npy"):
        with _opened(path) as stream:
            array = _array(stream, os.fstat(stream.fileno()).st_size)
    else:
        text = read_text(path)
        try:
            array = np.loadtxt(io.StringIO(text), delimiter=",", ndmin=2)
        except _DAMAGE as error:
            raise Unreadable(str(error)) from error
    if array.dtype.kind not in "biuf":
        raise Unreadable(f"its entries are {array.dtype}, no real numbers")
    return array


@contextmanager
def _opened_bytes(data: bytes) -> Iterator[IO[bytes]]:
    """Read from memory with the errors of `_opened`."""
    try:
        yield io.BytesIO(data)
    except Unreadable:
        raise
    except MemoryError as error:
        raise Unreadable("there is not enough memory for what it holds") from error
    except _DAMAGE as error:
        raise Unreadable(_reason(error)) from error


def _array(stream: IO[bytes], size: int) -> NDArray[Any]:
    """Read one array of ``size`` bytes, header included, after comparing the header with that size."""
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise Unreadable(f"an array of it has format {version}; (1, 0) and (2, 0) are read")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if (
        dtype.kind not in _KINDS
        or not dtype.itemsize
        or any(not isinstance(length, int) or length < 0 for length in shape)
    ):
        raise Unreadable(f"an array of it has type {dtype} and shape {shape}; numbers and text are read")
    declared = math.prod(shape) * dtype.itemsize
    if declared != size - stream.tell():
        raise Unreadable(
            f"an array of it declares {declared} bytes (shape {shape}, type {dtype}) and has {size - stream.tell()}"
        )
    data = bytearray(stream.read(declared))
    if len(data) != declared:
        raise Unreadable(f"an array of it ends after {len(data)} of {declared} bytes")
    flat = np.frombuffer(data, dtype) if data else np.zeros(math.prod(shape), dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


def expand(data: bytes, kind: str, least: int | None = None, times: int = _TIMES) -> bytes:
    """Decompress ``"gzip"`` or ``"xz"`` data to at most `unpacked_limit` bytes."""
    limit = unpacked_limit(len(data), least, times)
    with _opened_bytes(data) as stream:
        open_packed: Any = {"gzip": gzip.open, "xz": lzma.open}[kind]
        with open_packed(stream) as unpacked:
            found = unpacked.read(limit + 1)
    if len(found) > limit:
        raise Unreadable(f"it unpacks to more than {limit} bytes, from {len(data)}")
    return bytes(found)
