"""Text from handlers and programs, made fit for the wire and for PostgreSQL."""

from __future__ import annotations


def clean(value: str, max_chars: int) -> str:
    """The text without what UTF-8 or PostgreSQL cannot hold (lone surrogates, NUL), cut at its end to `max_chars`."""
    fit = value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if not fit.isascii():
        fit = fit.encode("utf-8", "replace").decode("utf-8")
    return fit if len(fit) <= max_chars else fit[: max_chars - 1] + "…"


def clean_tail(value: str, max_chars: int) -> str:
    """The same, cut at its beginning: of a traceback or a program's output the end says most."""
    cut = value if len(value) <= max_chars else "…" + value[len(value) - max_chars + 1 :]
    return clean(cut, max_chars)
