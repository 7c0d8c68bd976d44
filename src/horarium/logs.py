"""How log lines are written: JSON for programs or plain for people, to standard error, stamped with UTC."""

from __future__ import annotations

import logging
import sys

import structlog


def configure(form: str = "json", level: str = "info") -> None:
    """Set up structlog for this process. `form` is `json` or `console`; `level` the least important that is written."""
    if form == "json":
        renderer: structlog.types.Processor = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
