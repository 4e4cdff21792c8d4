"""The command line, a module for each group of commands; they are put together here."""

from __future__ import annotations

import inspect
import io
import logging
import os
import sys
from contextlib import suppress
from typing import Annotated, Any, get_type_hints

import typer
from typer.main import get_command

from fedselect import __version__
from fedselect.cli import bench, catalogue, experiments, guides, instances, reports, solve, trace
from fedselect.cli.common import Ended, warn
from fedselect.errors import TOOLKIT_ERRORS
from fedselect.signals import end_as_by_ctrl_c, ended_before_it_began, forget_interrupts

__all__ = ["app", "command", "main"]

#: Where typer's exceptions live: in click, or in newer versions in a copy of their own.
_EXCEPTIONS = sys.modules[typer.BadParameter.__module__]

#: Commands that go on where they were interrupted.
_CONTINUING = {"run", "compare", "bench"}

app = typer.Typer(
    help="Client selection in federated learning as explicit optimisation problems.",
    no_args_is_help=True,
    add_completion=True,
    suggest_commands=not hasattr(_EXCEPTIONS, "NoSuchCommand"),  # it suggests by itself
    pretty_exceptions_enable=False,
)
app.command("init")(experiments.init)
app.command("run")(experiments.run)
app.command("compare")(experiments.compare)
app.command("report")(reports.report)
app.command("list")(catalogue.list_)
app.command("export-flower")(experiments.export_flower)
app.command("solve")(solve.solve)
app.command("verify")(solve.verify)
app.command("bench")(bench.bench)
app.command("warm-up")(solve.warm_up)
app.command("docs")(guides.docs)
app.add_typer(experiments.config_app, name="config")
app.add_typer(instances.app, name="instances")
app.add_typer(trace.app, name="trace")


def command() -> Any:
    """Build the tree of commands, each argument with its description, which some pairs of typer and click lose."""
    tree = get_command(app)
    _describe(tree)
    return tree


def _describe(command: Any) -> None:
    for child in getattr(command, "commands", {}).values():
        _describe(child)
    if command.callback is None:
        return
    written = get_type_hints(inspect.unwrap(command.callback), include_extras=True)
    for parameter in command.params:
        found = [
            each.help for each in getattr(written.get(parameter.name), "__metadata__", ()) if hasattr(each, "help")
        ]
        if found and getattr(parameter, "help", None) is None:
            parameter.help = found[0]


def _version(asked: bool) -> None:
    if asked:
        print(f"fedselect {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Client selection in federated learning as explicit optimisation problems."""
    _say_what_is_done()


class _Stderr(logging.Handler):
    """Print log records as lines on the stderr of that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


def _say_what_is_done() -> None:
    """Name each plugin before it is executed, say when kernels are compiled, and of what else a found run was made."""
    for name in (
        "fedselect.plugins",
        "fedselect.experiments.folder",
        "fedselect.selectors.fedgs",
        "solvers",
    ):
        log = logging.getLogger(name)
        log.setLevel(logging.INFO)
        log.propagate = False
        if not log.handlers:
            log.addHandler(_Stderr())


def main() -> None:
    """Run the command line; an error that the user can mend is one sentence on stderr and exit code 2."""
    _prepare_streams()
    end_as_by_ctrl_c()
    os.environ["MPLBACKEND"] = "agg"  # no command opens a window, whatever an environment says about windows
    try:
        try:
            command()()
        finally:
            forget_interrupts()
            sys.stdout.flush()
    except TOOLKIT_ERRORS as error:
        raise _refused(str(error)) from None
    except BrokenPipeError:  # the reader of our output has seen enough
        _discard_stdout()
        raise SystemExit(141) from None
    except OSError as error:
        _discard_stdout()
        named = f"{error.filename}: " if error.filename else ""
        raise _refused(f"{named}{error.strerror or error}") from None
    except MemoryError:
        raise _refused("there is not enough memory for this") from None
    except KeyboardInterrupt:  # in none of the commands, which end by themselves
        raise ended_before_it_began() from None
    except SystemExit as end:
        if end.code == 130 and not isinstance(end, Ended):  # typer has turned Ctrl-C into this
            is_kept = {*sys.argv[1:2]} & _CONTINUING and "--without-training" not in sys.argv
            kept = "; what was finished is kept, and the same command continues" if is_kept else ""
            print(f"fedselect: interrupted{kept}", file=sys.stderr)
        raise


def _refused(sentence: str) -> SystemExit:
    warn(sentence)
    return SystemExit(2)


def _prepare_streams() -> None:
    """Let every text be printed in every encoding, and no file take the place of a standard stream that is closed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, which is this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  (for the rest of the process)
    if sys.stdout is None:
        raise _refused("standard output is closed; send it to a file, or to /dev/null")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and (stream.errors == "strict" or stream.encoding.lower() != "utf-8"):
            stream.reconfigure(errors="backslashreplace")


def _discard_stdout() -> None:
    """Let nothing more fail where stdout cannot be written: Python writes what is left when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
