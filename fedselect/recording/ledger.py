"""Keep the ledger of the shipped library: who found what, and a certificate of every bound that allows one.

    python -m fedselect.recording.ledger                      # enter what is missing or has changed
    python -m fedselect.recording.ledger --seconds 600 NAME   # look again for a certificate

A bound is proved from what is known already (the best decision and bound), not searched for again; every certificate is
read by `solvers.certificates.check` before it is kept. For who edits the package: it writes into the installed
``solvers.instances``.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from solvers import Solution, __version__, instances, solve
from solvers.certificate_writers import with_certificate
from solvers.certificates import problem_digest
from solvers.files import write_atomically
from solvers.instances.ledger import Found, LedgerEntry, Tier
from solvers.instances.ledger import entries as known_entries
from solvers.instances.library import FOLDER

__all__ = ["enter"]

#: Largest certificate that is shipped, in bytes; larger ones are made again by the command in the ledger. Rounds of 100
#: clients stay below 200 000.
LARGEST = 400_000

#: Seconds within which an easy instance is proved.
EASY = 1.0


def enter(folder: Path, chosen: Sequence[str], seconds: float, *, who: str, again: bool = False) -> None:
    """Enter the chosen instances (beginnings of names; all if empty), with ``seconds`` for each proof."""
    entries = known_entries()
    (folder / "certificates").mkdir(exist_ok=True)
    for name in instances.names():
        if chosen and not any(name.startswith(beginning) for beginning in chosen):
            continue
        importlib.import_module(f"solvers.{instances.info(name).family}")
        problem = problem_digest(instances.load(name))
        before = entries.get(name)
        if before is not None and before.problem != problem:
            before = None
        if before is not None and before.certified is not None:
            if not again:
                continue
            entries[name] = _certified(folder, before, seconds)
        else:
            entries[name] = _certified(folder, _entered(name, problem, before, who), seconds)
        _write(folder / "ledger.json", entries)
        print(f"{name}: {entries[name].tier}, certified {entries[name].certified}", flush=True)
    gone = set(entries) - set(instances.names())
    for name in gone:
        (folder / "certificates" / f"{name}.npz").unlink(missing_ok=True)
    _write(folder / "ledger.json", {name: entry for name, entry in entries.items() if name not in gone})


def _entered(name: str, digest: str, before: LedgerEntry | None, who: str) -> LedgerEntry:
    """Return the facts known of an instance, and whether it is proved within a second; its certificate apart."""
    known, problem = instances.info(name), instances.load(name)
    if known.best_known is None or known.bound is None:
        raise ValueError(f"{name} has not been solved yet: python -m fedselect.recording.maintain {name}")
    tier: Tier = "benchmark" if known.proved else "open"
    taken = None
    if known.proved:
        quick = solve(problem, time_limit=EASY)
        if quick.status == "optimal":
            tier, taken = "easy", round(quick.seconds, 3)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    finder, _, bounder = known.method.partition("; bound by ")
    command = f"fedselect solve {name} --method {{}}" + (f" --time-limit {EASY:g}" if taken is not None else "")
    value = Found(known.best_known, who, today, __version__, finder, command.format(finder), taken)
    bounder = bounder or finder
    bound = Found(known.bound, who, today, __version__, bounder, command.format(bounder), taken)
    if before is not None:  # what was found first stays with who found it
        value = before.value if before.value.number == value.number else value
        bound = before.bound if before.bound.number == bound.number else bound
    return LedgerEntry(name, tier, digest, value, bound)


def _certified(folder: Path, entry: LedgerEntry, seconds: float) -> LedgerEntry:
    """The entry with a certificate of its bound, made anew."""
    name = entry.name
    known, problem, best = instances.info(name), instances.load(name), instances.best(name)
    claim = Solution(problem, known.method, best, known.best_known, known.bound, "feasible", "iterations")
    proved = with_certificate(claim, seconds, relaxed=not known.proved)
    path = folder / "certificates" / f"{name}.npz"
    if proved.certificate is None:
        print(f"{name}: {proved.certificate_report}")
        return replace(entry, certified=None)
    proved.certificate.save(path)
    if path.stat().st_size > LARGEST:
        print(f"{name}: its certificate has {path.stat().st_size} bytes and is not shipped")
        path.unlink()
        return replace(entry, certified=None)
    return replace(entry, certified=proved.certificate.bound)


def _write(path: Path, entries: dict[str, LedgerEntry]) -> None:
    """One line an instance, so that a change reads well."""
    lines = [json.dumps(asdict(entries[name]), ensure_ascii=False) for name in sorted(entries)]
    write_atomically(path, ("[\n" + ",\n".join(lines) + "\n]\n").encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="beginnings of names; all if left out")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each proof")
    parser.add_argument("--who", default="fedselect", help="who is entered as the finder")
    parser.add_argument("--again", action="store_true", help="also where there is a certificate already")
    arguments = parser.parse_args()
    enter(FOLDER, arguments.names, arguments.seconds, who=arguments.who, again=arguments.again)
