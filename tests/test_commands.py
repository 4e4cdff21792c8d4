"""Commands that README and the pages show: each parses, and each that can be played here is played, page by page.

A block of shell is read line by line. What a line says about itself decides what is done with it: a duration in its
comment (``# 40 s``, ``# 13 min``), a word in capitals that the reader fills in (``FOLDER``), and its first word.
"""

from __future__ import annotations

import csv
import os
import pickle
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ARCHIVES = {"history.md"}  # what was measured once, with the commands of that day
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(
        path
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if not {"_build", "generated", "gallery"} & set(path.parts) and path.name not in ARCHIVES
    ),
]
NAMES = [str(path.relative_to(ROOT)) for path in PAGES]

BLOCK = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`(fedselect (?!->)[^`\n]+)`")
DURATION = re.compile(r"(\d+) (s|min|h)\b")
PLACEHOLDER = re.compile(r"(?:^|[/=])[A-Z]{3,}(?:/|$)|\.\.\.")  # FOLDER, FOLDER/x.csv
SECONDS = {"s": 1, "min": 60, "h": 3600}

INSTALLS = {"pip", "make", "python3", "."}  # another environment than the one under test
SERVERS = {"flwr", "flower-superlink", "flower-supernode"}  # tests/fedselect/integrations plays these, on free ports

MEASURES = "tests/benchmarks/"  # scripts whose result is the machine's: minutes to hours, on a quiet one

#: Above it a command is parsed and not played, but where it plays the example's federation, which is small here.
LONGEST = 60.0
SMALL = {"rounds": 2, "n_clients": 20, "clients_per_round": 5}


@dataclass(frozen=True)
class Command:
    """One line of a shell block: the command without its comment, and the comment."""

    line: str
    comment: str = ""

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line)

    @property
    def seconds(self) -> float:
        """Duration that the page states; 0 where it states none, which says "at once"."""
        found = DURATION.search(self.comment)
        return int(found[1]) * SECONDS[found[2]] if found else 0.0

    @property
    def codes(self) -> set[int]:
        """Exit codes that the comment calls success: ``exit code 0: better; 4: known``."""
        _, named, told = self.comment.partition("exit code")
        return {int(code) for code in re.findall(r"(\d): (?!refused)", told)} if named else {0}

    def why_not(self) -> str:
        """Return the rule by which the command is parsed alone, or nothing."""
        if self.words[0] in INSTALLS:
            return "installs"
        if self.words[0] in SERVERS:
            return "talks to a server"
        if self.words[0] == "python" and self.words[1].startswith(MEASURES):
            return "measures"
        if "--backend" in self.words:
            return "wants a cluster"
        if any(PLACEHOLDER.search(word) for word in self.words):
            return "the reader fills in a word"
        if self.seconds > LONGEST and "examples/demo.toml" not in self.line:
            return "takes long"
        return ""


def blocks(path: Path) -> list[list[Command]]:
    """Read a page's shell blocks, with continued lines joined."""
    found = []
    for text in BLOCK.findall(path.read_text(encoding="utf-8")):
        lines = [line.strip() for line in text.replace("\\\n", " ").splitlines()]
        parts = [re.split(r"(?:^|\s+)#\s*", line, maxsplit=1) for line in lines if line]
        found.append([Command(line, *comment) for line, *comment in parts if line])
    return found


def plan(path: Path, *, thorough: bool) -> list[tuple[Command, str]]:
    """Pair each of a page's commands with why it is not played, if so. What follows such a one may need its files."""
    planned = []
    for block in blocks(path):
        before = ""
        for command in block:
            why = command.why_not() or ("" if thorough or not command.seconds else "is left to the thorough part")
            planned.append((command, why or before))
            before = before or (f"follows one that {why}" if why and why != "installs" else "")
    return planned


@pytest.fixture
def checkout(tmp_path):
    """A folder like a checkout, whose example plays two rounds of twenty clients."""
    for name in ("tests", "Makefile", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for folder in ("gallery", "get_started"):
        (tmp_path / "docs" / folder).mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "gallery" / "home.py", tmp_path / "docs" / "gallery")  # it writes beside itself
    demo = tmp_path / "examples" / "demo.toml"
    text = demo.read_text(encoding="utf-8")
    for key, value in SMALL.items():
        text, times = re.subn(rf"^{key} = \d+$", f"{key} = {value}", text, flags=re.MULTILINE)
        assert times == 1, f"{key} is not in the example once"
    demo.write_text(text, encoding="utf-8")
    with (tmp_path / "client_behave_trace").open("wb") as stream:  # FedScale's form, in the place of its download
        pickle.dump({1: {"duration": 100, "active": [0, 60], "inactive": [30, 90], "finish_time": 100}}, stream)
    return tmp_path


def play(path: Path, folder: Path, *, thorough: bool) -> list[str]:
    """Play a page's commands in a folder, in order, and return what was played."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT), COLUMNS="80")
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    played = []
    for command, why in plan(path, thorough=thorough):
        if why:
            continue
        if command.words[0] == "export":
            environment.update([command.words[1].split("=", 1)])
            continue
        done = subprocess.run(
            ["bash", "-c", command.line],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1200,
        )  # fmt: skip
        said = f"{path.name}: {command.line}\nended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        assert done.returncode in command.codes, said
        assert "Traceback" not in done.stderr, said
        played.append(command.line)
    return played


def quick(path: Path) -> list[str]:
    return [command.line for command, why in plan(path, thorough=False) if not why]


def slow(path: Path) -> list[str]:
    return [command.line for command, why in plan(path, thorough=True) if not why]


#: The pages that are met first. Commands of all others are parsed every time, and played in the thorough part.
FIRST = [path for path in PAGES if path.stem in ("README", "installation") and quick(path)]


@pytest.mark.parametrize("path", FIRST, ids=lambda path: str(path.relative_to(ROOT)))
def test_quick_commands_of_a_page_do_what_they_say(path, checkout):
    assert play(path, checkout, thorough=False)


@pytest.mark.thorough
@pytest.mark.parametrize("path", [path for path in PAGES if slow(path)], ids=lambda path: str(path.relative_to(ROOT)))
def test_all_commands_of_a_page_do_what_they_say(path, checkout):
    assert play(path, checkout, thorough=True)


def test_so_many_commands_are_played():
    """Neither a new rule nor a new form of block leaves the tests above with nothing to play."""
    shown = [command for path in PAGES for block in blocks(path) for command in block]
    assert len(shown) >= 60
    assert sum(len(quick(path)) for path in PAGES) >= 5
    assert sum(len(slow(path)) for path in PAGES) >= 30


def test_rules_that_keep_a_command_from_being_played():
    assert Command("pip install .").why_not() == "installs"
    assert Command("flwr run my-federation local").why_not() == "talks to a server"
    assert Command("fedselect bench --data FOLDER").why_not() == "the reader fills in a word"
    assert Command("python tests/benchmarks/bench_loop.py").why_not() == "measures"
    assert Command("fedselect compare examples/demo.toml --backend ray").why_not() == "wants a cluster"
    assert Command("fedselect bench --suite convex", "13 min").why_not() == "takes long"
    assert Command("fedselect compare examples/demo.toml", "2 min").why_not() == ""
    assert Command("fedselect instances submit x.npz", "exit code 0: better; 4: known; 3: refused").codes == {0, 4}


@cache
def whole_command():
    """Make the tree of commands, once: it takes longer than to look at it."""
    from typer.main import get_command

    from fedselect.cli import app

    return get_command(app)


def check_fedselect(arguments: list[str], *, whole: bool) -> None:
    """Refuse a command of ``fedselect`` whose subcommand or options are unknown; a sentence may leave some out."""
    from fedselect.cli import _EXCEPTIONS

    command = whole_command()
    while hasattr(command, "commands") and arguments and not arguments[0].startswith("-"):
        name, *arguments = arguments
        assert name in command.commands, name
        command = command.commands[name]
    if hasattr(command, "commands"):
        assert not whole
        return
    try:
        context = command.make_context("fedselect", arguments)
    except (
        _EXCEPTIONS.MissingParameter,
        _EXCEPTIONS.BadOptionUsage,
    ):  # `fedselect solve --size`, which names an option
        assert not whole
        return
    if str(context.params.get("config", "")).startswith("examples/"):
        assert (ROOT / context.params["config"]).exists()


def check(command: Command, *, whole: bool = True) -> None:
    """Refuse a command that names an unknown option, a target, an extra or a script that is not there."""
    words = command.words
    if words[0] == "fedselect":
        check_fedselect(words[1:], whole=whole)
    elif words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert words[1] in targets
    elif words[0] == "pip":
        with (ROOT / "pyproject.toml").open("rb") as stream:
            extras = tomllib.load(stream)["project"]["optional-dependencies"]
        named = {each for extra in re.findall(r"\[([\w,]+)\]", command.line) for each in extra.split(",")}
        assert named <= set(extras)
    elif words[0] == "python" and words[1].endswith(".py"):
        path = ROOT / words[1]
        text = path.read_text(encoding="utf-8")
        if path.parent.name == "studies":  # all have the options of their frame
            text += path.with_name("study.py").read_text(encoding="utf-8")
        assert [word for word in words if word.startswith("--") and word.split("=")[0] not in text] == []


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_commands_exist(path):
    """Every command of a page's blocks and cells, and every `fedselect ...` in its sentences, is one that there is."""
    text = path.read_text(encoding="utf-8")
    cells = [re.split(r"\s#|\s2>|\s\|", line[1:])[0] for line in text.splitlines() if line.startswith("!fedselect ")]
    spans = [command for command in map(Command, SPAN.findall(text)) if not command.why_not()]
    shown = [command for block in blocks(path) for command in block]
    for command in [*shown, *map(Command, cells)]:
        check(command)
    for command in spans:
        check(command, whole=False)
    assert len(shown) >= 3 or path.name != "README.md"


def test_commands_of_the_gallery_exist():
    """The command beside every published result still parses."""
    with (ROOT / "docs" / "gallery" / "provenance.csv").open(encoding="utf-8") as stream:
        told = [row["command"] for row in csv.DictReader(stream)]
    commands = [re.split(r" \(|, ", line)[0] for line in told if line.startswith("python examples/")]
    assert len(commands) > 10
    for line in commands:
        check(Command(line))
