"""Tables in CSV and Parquet files of users: compared with what they declare, and read without executing anything."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedselect.errors import ConfigError, DataError, missing_extra
from solvers.environment import how_to_install
from solvers.files import appearing_whole
from solvers.reading import expand, read_bytes

if TYPE_CHECKING:
    import pandas as pd

#: Bytes that a compressed CSV file may always unpack to, and how many times its own size where that is more: a trace
#: of all ones is a hundredth, text in a table takes ten times its bytes.
_UNPACKED, _TIMES = 256 * 2**20, 100

#: Cells of a Parquet file that are always read, and how many for each of its bytes: equal values take no space there.
_CELLS, _CELLS_PER_BYTE = 5_000_000, 50

NO_PARQUET = f"Parquet needs pyarrow, which is not installed: {how_to_install('parquet')}"


def read_table(path: str | Path, what: str, *, numbers: bool = False, bare: bool = False) -> pd.DataFrame:
    """Read a table, after comparing what it declares with the file.

    Parameters
    ----------
    path : path-like
        Ends in ``.csv``, ``.csv.gz`` or ``.parquet``.
    what : str
        Its kind, for messages: "trace", say.
    numbers : bool
        Whether a Parquet file may hold numbers with a fraction beside whole numbers and truth values.
    bare : bool
        Whether the first line of a CSV file may be states instead of names: 0 and 1, or false and true. Where these
        may be the numbers of clients as well (0 and 1 once each, or a single 0), the file is refused.

    Raises
    ------
    DataError
        When the file cannot be read, is empty, or its ending is unknown.
    MissingExtraError
        When it is Parquet and pyarrow is missing.
    """
    import pandas as pd

    try:
        if is_parquet(path, what):
            table = _read_parquet(path, numbers)
        else:
            data = read_bytes(path)
            if str(path).lower().endswith(".gz"):
                data = expand(data, "gzip", _UNPACKED, _TIMES)
            words = data.partition(b"\n")[0].decode("utf-8", "replace").strip().lower().split(",")
            is_bare = bare and set(words) <= {"0", "1", "true", "false"}
            if is_bare and sorted(words) in (["0"], ["0", "1"]):
                raise ValueError(
                    f"its first line, {','.join(words)}, may name clients or be a round: give the columns other names, "
                    "or a column 'round'"
                )
            table = pd.read_csv(io.BytesIO(data), header=None if is_bare else "infer")
    except (OSError, ValueError) as error:  # pandas' own errors, and `Unreadable`, are ValueErrors
        raise DataError(f"cannot read the {what} {path}: {error}") from error
    if table.empty:
        raise DataError(f"{path}: this {what} has no row")
    table.columns = [str(c).strip() for c in table.columns]
    if table.columns.has_duplicates:
        raise DataError(f"{path}: a column appears twice")
    return table


def write_table(path: str | Path, table: pd.DataFrame, what: str, **options: Any) -> None:
    """Write a table to a file that `read_table` reads, which appears whole or not at all.

    ``path`` and ``what`` are those of `read_table`; ``options`` are pandas' for this kind of file.

    Raises
    ------
    ConfigError
        When the ending is unknown.
    MissingExtraError
        When it is Parquet and pyarrow is missing.
    """
    write: Any = table.to_csv
    if is_parquet(path, what):
        write = table.to_parquet
    elif str(path).lower().endswith(".gz"):
        options = {"compression": "gzip", **options}
    try:
        with appearing_whole(Path(path)) as stream:
            write(stream, index=False, **options)
    except ImportError as error:
        raise missing_extra("pyarrow", NO_PARQUET, error) from error


def _read_parquet(path: str | Path, numbers: bool) -> pd.DataFrame:
    """Read a Parquet file's columns of numbers and truth values, and nothing that describes other types."""
    import pandas as pd

    try:
        import pyarrow as pa  # type: ignore[import-untyped]
        import pyarrow.parquet as pq  # type: ignore[import-untyped]
    except ImportError as error:
        raise missing_extra("pyarrow", NO_PARQUET, error) from error
    data = read_bytes(path)
    accepted = "numbers and booleans" if numbers else "integers and booleans"
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        kinds = {field.name: field.type for field in file.schema_arrow}
        for name, kind in kinds.items():
            known = pa.types.is_integer(kind) or kind == pa.bool_() or (numbers and pa.types.is_floating(kind))
            if not known:
                raise ValueError(f"column {name!r} holds {kind}; accepted are {accepted}")
        cells = file.metadata.num_rows * len(file.schema_arrow)
        if cells > max(_CELLS, _CELLS_PER_BYTE * len(data)):
            raise ValueError(f"it declares {cells} cells, in {len(data)} bytes")
        table = file.read(use_threads=False)
        return pd.DataFrame({name: table.column(name).to_numpy() for name in kinds})
    except (pa.ArrowException, KeyError) as error:
        raise ValueError(str(error)) from error


def is_parquet(path: str | Path, what: str) -> bool:
    """Return True for Parquet, False for CSV; raise `ConfigError` for a name with another ending."""
    name = str(path).lower()
    if name.endswith(".parquet"):
        return True
    if name.endswith((".csv", ".csv.gz")):
        return False
    raise ConfigError(f"a {what}'s file ends in .csv, .csv.gz or .parquet; got {path}")
