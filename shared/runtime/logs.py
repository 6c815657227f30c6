"""Structured logs: one JSON object a line, one `event` name per fact, ids as fields, never personal data."""

import logging
import os
import sys
from typing import Any, Final, TextIO

import orjson
import structlog
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

_TRACEBACKS: Final = structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False))
"""Without local variables: they hold recipients, bodies, codes and keys."""


def configure_logging(service: str, *, stream: TextIO | None = None) -> None:
    """Route structlog and the standard library's logging to JSON lines on stderr (or `stream`).

    `ULAK_LOG_LEVEL` (default INFO) is read here, because settings that fail to load must be logged as well.
    """
    level = logging.getLevelNamesMapping().get(os.environ.get("ULAK_LOG_LEVEL", "INFO").upper(), logging.INFO)
    out = stream or sys.stderr

    def add_service(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event["service"] = service
        return event

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        add_service,
    ]
    structlog.configure(
        processors=[
            *shared,
            _TRACEBACKS,
            _event_first,
            structlog.processors.JSONRenderer(serializer=_dumps),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _TRACEBACKS,
                _event_first,
                structlog.processors.JSONRenderer(serializer=_dumps),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level, logging.WARNING))  # libraries: what is wrong, not what is going on


def get_logger(name: str) -> FilteringBoundLogger:
    logger: FilteringBoundLogger = structlog.get_logger(logger_name=name)
    return logger


def _event_first(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {"event": event.pop("event", ""), **event}


def _dumps(value: Any, **_options: Any) -> str:
    return orjson.dumps(value, default=str).decode()
