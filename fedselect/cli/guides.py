"""Command docs: the how-to pages and those that they refer to, which are in the wheel, in the terminal."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

import fedselect
from fedselect.cli.common import say
from fedselect.errors import ConfigError
from solvers.options import did_you_mean

#: The pages in an installed package, and in a checkout.
_PLACES = (Path("guides"), Path("..", "docs", "how_to"))

#: Further pages, in a checkout below ``docs``; in an installed package they are beside the others.
FURTHER = ("choose.md", "questions.md", "reference/exit_codes.md", "reference/formats.md")


def folder() -> Path:
    """Return the folder with the pages."""
    package = Path(fedselect.__file__).parent
    for place in _PLACES:
        if (package / place / "solving.md").is_file():
            return (package / place).resolve()
    raise ConfigError("the how-to pages are not installed; they are in docs/how_to of the repository")


def pages() -> dict[str, Path]:
    """Return the pages by name."""
    here = folder()
    further = [path for name in FURTHER if (path := here.parent / name).is_file()]
    return {path.stem: path for path in sorted([*here.glob("*.md"), *further]) if path.stem != "index"}


def plain(text: str) -> str:
    """Return a page's text without what its build needs: front matter, hidden cells, directives' marks."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    text = re.sub(r"```\{code-cell\} python\n:tags: \[remove-(?:cell|input)\]\n.*?```\n*", "", text, flags=re.DOTALL)
    text = re.sub(r"^```\{code-cell\} python\n((?::.*\n)*)\n?", "```python\n", text, flags=re.MULTILINE)
    text = re.sub(r"```\{csv-table\}.*?\n```", "(Here the online page has a table of results.)", text, flags=re.DOTALL)
    text = re.sub(
        r"\{doc\}`([^`<]+?)\s*<([^`>]*)>`", lambda found: f"{found[1]} ({_named(Path(found[2]), ', ')})", text
    )
    text = re.sub(r"(\A|[.?!]\*{0,2}\s+|\n\n)?\{doc\}`([^`]*)`", _in_sentence, text)
    text = re.sub(r"\{(?:ref|term)\}`([^`<]+?)\s*<[^`>]*>`|\{term\}`([^`]*)`", r"\1\2", text)
    text = re.sub(r"\{ref\}`([^`]*)`", lambda found: f'"{found[1].replace("-", " ").capitalize()}"', text)
    return text.strip() + "\n"


def docs(
    page: Annotated[
        str | None, typer.Argument(help="Name of a page, or a word to look for; the list of pages if left out.")
    ] = None,
) -> None:
    """Print a how-to page, or the list of them; they are installed with the package."""
    known = pages()
    if page is None:
        for name, path in known.items():
            print(f"{name:<14} {_title(path)}")
        say("'fedselect docs PAGE' prints one, 'fedselect docs WORD' names those that have a word")
        return
    if page in known:
        print(plain(known[page].read_text(encoding="utf-8")), end="")
        return
    found = [name for name, path in known.items() if page.lower() in path.read_text(encoding="utf-8").lower()]
    if not found:
        raise ConfigError(f"no how-to page has {page!r}{did_you_mean(page, known)} (pages: {', '.join(known)})")
    for name in found:
        lines = plain(known[name].read_text(encoding="utf-8")).splitlines()
        first = next((line for line in lines if page.lower() in line.lower()), "")
        print(f"{name:<14} {first.strip()[:100]}")


def _in_sentence(found: re.Match[str]) -> str:
    """Name a page that a text refers to without words of its own, where a sentence begins with a capital."""
    named = _named(Path(found[2]))
    return named if found[1] is None else found[1] + named[0].upper() + named[1:]


def _named(page: Path, apart: str = " (") -> str:
    """Name a page that a text refers to, and say where it is if it is not one of these."""
    name = page.parent.name if page.name == "index" and page.parent.name else page.name
    if name in pages() and "examples" not in page.parts:  # an example may be called as a page is
        return f"the page {name}"
    place = "examples of the repository" if "examples" in page.parts else "online"
    return f"the page {name}{apart}{place}{')' if apart == ' (' else ''}"


def _title(path: Path) -> str:
    return next((line[2:] for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# ")), "")
