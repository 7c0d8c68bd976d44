"""Names for commands: `[ -x /usr/sbin/logcheck ] && nice -n10 /usr/sbin/logcheck -R` is `logcheck`.

The same commands in the same order always get the same names, so a second import changes jobs and makes no new ones.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

_SEPARATORS = frozenset("();&|")  # a token of these only: `&&`, `;;`
_BRACES = frozenset({"{", "}"})
_REDIRECTIONS = re.compile(r"[<>]+&?")
_KEYWORDS = frozenset({"if", "then", "else", "elif", "fi", "do", "done", "while", "for", "!", "time"})
# They prepare, they ask, they say: not what the entry is for.
_BESIDES = frozenset(
    [
        "test",
        "[",
        "[[",
        "command",
        "which",
        "type",
        "cd",
        "pushd",
        "export",
        "set",
        "unset",
        "ulimit",
        "umask",
        "sleep",
        ".",
        "source",
        "true",
        "false",
        ":",
        "exit",
        "echo",
        "printf",
        "eval",
        "trap",
        "read",
    ]
)
# They start another program: its name is the one that counts. How many operands come before it, and which of their
# options take the next word as value.
_STARTERS: dict[str, tuple[int, frozenset[str]]] = {
    "chronic": (0, frozenset()),
    "chrt": (1, frozenset({"-p"})),
    "env": (0, frozenset({"-u", "-C"})),
    "exec": (0, frozenset({"-a"})),
    "flock": (1, frozenset({"-w", "-E"})),
    "ionice": (0, frozenset({"-c", "-n"})),
    "nice": (0, frozenset({"-n"})),
    "nohup": (0, frozenset()),
    "setsid": (0, frozenset()),
    "stdbuf": (0, frozenset({"-i", "-o", "-e"})),
    "sudo": (0, frozenset({"-u", "-g", "-h"})),
    "systemd-cat": (0, frozenset({"-t", "-p"})),
    "timeout": (1, frozenset({"-s", "-k"})),
}
_INTERPRETERS = re.compile(r"(?:ba|da|z|k)?sh|perl|php|ruby|node|python[0-9.]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PLAIN_WORD = re.compile(r"[a-z][a-z0-9_-]{1,30}")
_SUFFIXES = frozenset({".sh", ".bash", ".py", ".pl", ".php", ".rb", ".js"})
_LONGEST = 60


def name_all(commands: Sequence[tuple[str, str]]) -> list[str]:
    """A name for each (command, what else tells it apart), all different.

    The first of several with the same name keeps it; the others get four digits made from their command.
    """
    taken: set[str] = set()
    names = []
    for command, distinction in commands:
        name = next(name for name in _candidates(command, distinction) if name not in taken)
        taken.add(name)
        names.append(name)
    return names


def name_of(command: str) -> str:
    """The program that the command is there for, with its first argument where that is a plain word.

    One that only prepares, asks or says something counts where there is no other.
    """
    simple = list(_simple_commands(command))
    named = (_name(words, besides) for besides in (_BESIDES, frozenset[str]()) for words in simple)
    return next((name for name in named if name), "command")


def _candidates(command: str, distinction: str) -> Iterator[str]:
    name = name_of(command)
    yield name
    yield f"{name}-{_digits(command)}"
    yield f"{name}-{_digits(f'{command} {distinction}')}"
    count = 2
    while True:
        yield f"{name}-{_digits(command)}-{count}"
        count += 1


def _digits(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=2).hexdigest()


def _simple_commands(command: str) -> Iterator[list[str]]:
    """The words of each simple command, without redirections; what stands in `$( )` is passed over."""
    words: list[str] = []
    parts = iter(_tokens(command))
    for part in parts:
        if part == "(" and words and words[-1].endswith("$"):
            _skip_parentheses(parts)
        elif part in _BRACES or set(part) <= _SEPARATORS:
            yield words
            words = []
        elif _REDIRECTIONS.fullmatch(part):
            next(parts, None)
            words = words[:-1] if words and words[-1].isdigit() else words
        else:
            words.append(part)
    yield words


def _tokens(command: str) -> list[str]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:  # a quote that is not closed
        return command.split()


def _skip_parentheses(parts: Iterator[str]) -> None:
    depth = 1
    for part in parts:
        if set(part) <= _SEPARATORS:
            depth += part.count("(") - part.count(")")
        if depth <= 0:
            return


def _name(words: Sequence[str], besides: frozenset[str]) -> str | None:
    rest = list(words)
    while rest and (rest[0] in _KEYWORDS or _ASSIGNMENT.match(rest[0])):
        rest.pop(0)
    if not rest:
        return None
    program = PurePosixPath(rest[0]).name
    if program in besides:
        return None
    if program in _STARTERS:
        operands, valued = _STARTERS[program]
        return _name(_without_options(rest[1:], valued)[operands:], besides)
    if _INTERPRETERS.fullmatch(program):
        script = next((word for word in rest[1:] if not word.startswith("-")), None)
        return _slug(script) if script and not {"-c", "-e", "-r"} & set(rest[1:3]) else None
    argument = rest[1] if len(rest) > 1 and _PLAIN_WORD.fullmatch(rest[1]) else ""
    return _slug(rest[0], argument)


def _without_options(words: Sequence[str], valued: frozenset[str]) -> list[str]:
    rest = list(words)
    while rest and rest[0].startswith("-"):
        rest = rest[2 if rest[0] in valued else 1 :]
    return rest


def _slug(program: str, argument: str = "") -> str | None:
    path = PurePosixPath(program)
    base = path.stem if path.suffix in _SUFFIXES else path.name
    text = f"{base}-{argument}" if argument else base
    return re.sub(r"[^a-z0-9_.]+", "-", text.lower()).strip("-._")[:_LONGEST] or None
