"""Commands about traces, recorded availability or returns in a file: make, show, convert."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from fedselect.cli.common import Format, key_values, say, text, writing
from fedselect.errors import ConfigError, DataError
from fedselect.options import check_choice
from fedselect.terminal import print_table

if TYPE_CHECKING:
    import pandas as pd

    from fedselect.availability.intervals import Recorded

app = typer.Typer(
    help="Recorded availability or returns, in CSV and Parquet files: make, show, convert.", no_args_is_help=True
)

#: The picture's size in cells, and the shades of a cell by the share of rounds and clients in it that are there.
_ROWS, _COLUMNS, _SHADES = 16, 64, " ░▒▓█"


def complete_model(incomplete: str) -> list[str]:
    """Complete names of availability and dropout models."""
    from fedselect.availability import AVAILABILITY, DROPOUT

    return [name for name in dict.fromkeys([*AVAILABILITY.names, *DROPOUT.names]) if name.startswith(incomplete)]


def complete_data(incomplete: str) -> list[str]:
    """Complete names of data sets."""
    from fedselect.data import DATASETS

    return [name for name in DATASETS.names if name.startswith(incomplete)]


@app.command("make")
def make(
    model: Annotated[
        str,
        typer.Argument(
            help="An availability model, or a dropout model for --returns; 'fedselect list' names them.",
            autocompletion=complete_model,
        ),
    ],
    out: Annotated[Path, typer.Option(help="The file: .csv, .csv.gz or .parquet.")] = Path("trace.csv"),
    n_clients: Annotated[int, typer.Option(help="Number of clients.")] = 100,
    rounds: Annotated[int, typer.Option(help="Number of rounds.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the model.")] = 0,
    option: Annotated[list[str], typer.Option(help="Option of the model, as key=value. May be repeated.")] = [],  # noqa: B006  (typer copies defaults)
    data: Annotated[str, typer.Option(help="Data set of the clients.", autocompletion=complete_data)] = "digits",
    data_option: Annotated[list[str], typer.Option(help="Option of the data set, as key=value. May be repeated.")] = [],  # noqa: B006
    returns: Annotated[
        bool, typer.Option("--returns", help="Record a dropout model instead: who would come back if selected.")
    ] = False,
    layout: Annotated[str, typer.Option(help="'long': a row for each client there; 'wide': a row a round.")] = "long",
    format: Format = "text",
) -> None:
    """Make a trace from a registered model, to look at, to change, or to run with availability or dropout 'trace'."""
    from fedselect.availability import AVAILABILITY, DROPOUT, record, write_trace
    from fedselect.data import load_data

    if rounds < 1:
        raise ConfigError(f"a trace needs at least one round; got {rounds}")
    options = key_values(option)
    if returns:
        dropout = DROPOUT.build(model, n_clients, seed, **options)
        there = np.stack([dropout.returned(t) for t in range(rounds)])
    else:
        AVAILABILITY.check(model, options)  # before data are loaded for nothing
        federation = load_data(data, **{"n_clients": n_clients} | key_values(data_option))
        availability = AVAILABILITY.build(model, federation, seed, **options)
        there = record(availability, rounds)
    with writing(out):
        write_trace(out, there, layout)
    _print(out, there, format)


@app.command("show")
def show(
    file: Annotated[Path, typer.Argument(help="A .csv, .csv.gz, .npy or .parquet trace.", show_default=False)],
    format: Format = "text",
) -> None:
    """Show a trace, of rounds or of intervals in seconds: clients, how many are there, for how long, and a picture."""
    from fedselect.availability import read_trace
    from fedselect.availability.times import read_times

    try:
        there = read_trace(file)
    except (ConfigError, DataError) as error:
        with suppress(ConfigError, DataError):
            recorded = read_times(file, "intervals")
            _print_intervals(file, *recorded, format)
            return
        raise error
    _print(file, there, format)


@app.command("convert")
def convert(
    file: Annotated[
        Path, typer.Argument(help="What was published: .json, .jsonl, .csv, .csv.gz, .parquet, or FedScale's pickles.")
    ],
    kind: Annotated[
        str,
        typer.Option(help="intervals (FedScale's and FLASH's too), transitions, pings, power (FedZero's); or devices."),
    ] = "intervals",
    out: Annotated[Path, typer.Option(help="The file: .csv, .csv.gz or .parquet.")] = Path("converted.csv"),
    devices: Annotated[
        Path | None,
        typer.Option(help="Devices of the same clients: converted too, and a client has one number in both tables."),
    ] = None,
    devices_out: Annotated[Path, typer.Option(help="The file of --devices.")] = Path("devices.csv"),
    origin: Annotated[
        str | None, typer.Option(help="The moment at which a run starts; the first in the file by default.")
    ] = None,
    time_zone: Annotated[str, typer.Option(help="Zone of dates that do not say theirs.")] = "UTC",
    timeout: Annotated[float, typer.Option(help="Seconds for which a ping counts.")] = 300.0,
    least_power: Annotated[float, typer.Option(help="Power above which a client is there.")] = 0.0,
    format: Format = "text",
) -> None:
    """Convert published traces to intervals in seconds, or FedScale's devices to a table; clients are numbered anew.

    Clients that have an interval (devices: that are listed) are numbered from 0 in the order of their ids; with
    --devices, those that have an interval and a device, and the others are left out of both tables. Of pickles
    containers, numbers and texts are read: nothing in them runs.
    """
    import pandas as pd

    from fedselect.availability.times import read_times
    from fedselect.clock import read_devices
    from fedselect.tables import is_parquet, write_table

    if kind == "devices":
        if devices is not None:
            raise ConfigError("--devices is about the clients of a file of times; give that, and another --kind")
        found = read_devices(file)
        tables = {out: pd.DataFrame({"client": range(len(found))} | vars(found))}
        facts: dict[str, Any] = {"file": str(out), "n_clients": len(found)}
    else:
        check_choice("kind", kind, "intervals", "transitions", "pings", "power", "devices")
        read = partial(
            read_times, file, kind, origin=origin, time_zone=time_zone, timeout=timeout, least_power=least_power
        )
        (who, on, off), table, left = (read(), None, 0) if devices is None else _with_devices(file, devices, read)
        numbered = np.unique(who, return_inverse=True)[1]
        tables = {out: pd.DataFrame({"client": numbered, "on": on, "off": off})}
        facts = {
            "file": str(out),
            "n_clients": int(numbered.max(initial=-1)) + 1,
            "intervals": int(who.size),
            "last_second": float(off.max(initial=0.0)),
            "hours_there": float((off - on).sum()) / 3600.0,
        }
        if table is not None:
            if devices_out == out:
                raise ConfigError(f"--out and --devices-out name one file, {out}; two are written")
            tables[devices_out] = table
            facts |= {"devices": str(devices_out), "clients_without_device": left}
    for path in tables:
        is_parquet(path, "trace")  # an ending that is not known is said before anything is written
    for path, table in tables.items():
        with writing(path):
            write_table(path, table, "trace")
    if format == "json":
        print(json.dumps(facts))
        return
    print_table(("measure", "value"), [(key.replace("_", " "), text(value)) for key, value in facts.items()])


def _with_devices(file: Path, devices: Path, read: Callable[..., Recorded]) -> tuple[Recorded, pd.DataFrame, int]:
    """Return the intervals of the clients that have a device, the table of these, and how many have none.

    Both number the clients alike, by their ids.
    """
    import pandas as pd

    from fedselect.clock import device_ids, read_devices

    ids = device_ids(devices)
    who, on, off = read(ids=ids)
    known = who < len(ids)
    clients = np.unique(who[known])
    if not clients.size:
        raise DataError(f"no client of {file} has a device in {devices}, whose first client is {ids[0]!r}")
    kept = {name: values[clients] for name, values in vars(read_devices(devices)).items()}
    table = pd.DataFrame({"client": range(clients.size)} | kept)
    return (who[known], on[known], off[known]), table, np.unique(who[~known]).size


def _print_intervals(
    file: Path, who: NDArray[np.int64], on: NDArray[np.float64], off: NDArray[np.float64], format: str
) -> None:
    """Print what intervals say, and draw them: a cell is the share of its time in which its clients are there."""
    numbered = np.unique(who, return_inverse=True)[1]
    n_clients, last = int(numbered.max(initial=-1)) + 1, float(off.max(initial=0.0))
    if not n_clients or last <= 0:
        raise DataError(f"{file} has no interval after its origin")
    facts = {
        "file": str(file),
        "n_clients": n_clients,
        "intervals": int(who.size),
        "last_second": last,
        "available": float((off - on).sum()) / (n_clients * last),
        "mean_seconds_there": float((off - on).mean()),
    }
    if format == "json":
        print(json.dumps(facts))
        return
    print_table(("measure", "value"), [(key.replace("_", " "), text(value)) for key, value in facts.items()])
    edges = np.linspace(0.0, last, _COLUMNS + 1)
    shares = np.zeros((_COLUMNS, n_clients))
    for low, high, share in zip(edges[:-1], edges[1:], shares, strict=True):
        np.add.at(share, numbered, np.clip(np.minimum(off, high) - np.maximum(on, low), 0.0, None) / (high - low))
    print("clients from top to bottom, by how long they are there; time from left to right")
    print(picture(shares, _shades()))
    say(f"these are intervals in seconds: availability 'seconds' with path = '{file}' plays them")


def _shades() -> str:
    """Return the shades of a picture that the terminal can show."""
    encoding = (sys.stdout.encoding or "ascii").lower()
    return _SHADES if encoding.startswith("utf") else " .:*#"


def _print(file: Path, there: NDArray[np.bool_], format: str) -> None:
    facts = {"file": str(file)} | summary(there)
    if format == "json":
        print(json.dumps(facts))
        return
    print_table(("measure", "value"), [(key.replace("_", " "), text(value)) for key, value in facts.items()])
    if not there[:, 0].any() and there.any():
        say("client 0 is never there: clients count from 0; if yours count from 1, take 1 from each")
    print("clients from top to bottom, by how often they are there; rounds from left to right")
    print(picture(there, _shades()))


def summary(there: NDArray[np.bool_]) -> dict[str, Any]:
    """Describe a (T, N) trace in numbers.

    Returns
    -------
    dict
        ``rounds``, ``n_clients``; ``available``: share of all client-rounds; ``fewest`` and ``most`` clients in a
        round; ``rounds_without_anybody``, ``clients_never_there``; ``mean_spell`` and ``mean_absence`` in rounds, over
        the runs of each client, cut off at both ends of the trace (``None`` where there is no run).
    """
    rounds, n_clients = there.shape
    counts = there.sum(axis=1)
    return {
        "rounds": rounds,
        "n_clients": n_clients,
        "available": float(there.mean()),
        "fewest": int(counts.min()),
        "most": int(counts.max()),
        "rounds_without_anybody": int((counts == 0).sum()),
        "clients_never_there": int((~there.any(axis=0)).sum()),
        "mean_spell": _mean_run(there),
        "mean_absence": _mean_run(~there),
    }


def _mean_run(state: NDArray[np.bool_]) -> float | None:
    """Return the mean length of the runs of true entries down the columns."""
    starts = state & ~np.vstack([np.zeros((1, state.shape[1]), dtype=bool), state[:-1]])
    return float(state.sum() / starts.sum()) if starts.any() else None


def picture(there: NDArray[Any], shades: str = _SHADES) -> str:
    """Draw a (T, N) trace, or shares in [0, 1], with characters: clients down, the most available first; rounds across.

    A cell is a block of clients and rounds, the darker the larger the share of it that is there; the first shade is
    for none of it, the last for all.
    """
    grid = there[:, np.argsort(-there.sum(axis=0), kind="stable")].T.astype(np.float64)
    for axis, most in ((0, _ROWS), (1, _COLUMNS)):
        blocks = np.array_split(grid, min(most, grid.shape[axis]), axis=axis)
        grid = np.stack([block.mean(axis=axis) for block in blocks], axis=axis)
    levels = np.ceil(grid * (len(shades) - 2)).astype(int) + (grid >= 1.0)
    return "\n".join("|" + "".join(shades[level] for level in row) + "|" for row in levels)
