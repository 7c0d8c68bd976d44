"""The pages of the documentation, taken apart: links, headings, code, commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.rules import tree

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_SPAN = re.compile(r"`([^`\n]+)`")
_END_OF_COMMAND = {"|", "||", "&&", ";", ">", ">>", "<", "2>", "&"}


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of code: its language, its text, and the line it begins on."""

    page: Path
    language: str
    text: str
    line: int

    @property
    def place(self) -> str:
        """As a failure names it."""
        return f"{tree.shown(self.page)}:{self.line}"


@cache
def pages() -> tuple[Path, ...]:
    """Every page that people read."""
    return tuple(path for path in tree.tracked_files() if path.suffix == ".md" and tree.TESTS not in path.parents)


@cache
def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _FENCE.sub("", page.read_text("utf-8"))


def blocks(page: Path, *languages: str) -> Iterator[Block]:
    """The blocks of a page in these languages; in all of them when none is named."""
    text = page.read_text("utf-8")
    for found in _FENCE.finditer(text):
        if not languages or found[1] in languages:
            yield Block(page, found[1], found[2], text.count("\n", 0, found.start()) + 2)


def links(page: Path) -> list[str]:
    """Where a page points to."""
    return _LINK.findall(prose(page))


def spans(page: Path) -> list[str]:
    """The words set in code type."""
    return _SPAN.findall(prose(page))


@cache
def anchors(page: Path) -> frozenset[str]:
    """The headings of a page as links name them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles)


def commands(page: Path, program: str) -> Iterator[tuple[str, list[str]]]:
    """Every call of a program: where it stands, and the words behind it."""
    for block in blocks(page, "sh", "text", ""):
        for number, line in enumerate(block.text.splitlines(), block.line):
            for words in _calls(line, program):
                yield f"{tree.shown(page)}:{number}", words
    for span in spans(page):
        if span.startswith(f"{program} "):
            for words in _calls(span, program):
                yield f"{tree.shown(page)}: `{span}`", words


def _calls(line: str, program: str) -> Iterator[list[str]]:
    """The calls in a line of shell: up to the end of each command."""
    if program not in line:
        return
    try:
        lexer = shlex.shlex(line.replace("$(", " ; ").replace('"$', '"'), posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        words = list(lexer)
    except ValueError:  # a quotation that goes on in the next line
        return
    for index, word in enumerate(words):
        if word == program and (index == 0 or words[index - 1] in _END_OF_COMMAND or "=" in words[index - 1]):
            rest = words[index + 1 :]
            end = next((at for at, part in enumerate(rest) if part in _END_OF_COMMAND or part.endswith(")")), len(rest))
            yield rest[:end]
