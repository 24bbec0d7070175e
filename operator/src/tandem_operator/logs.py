# SPDX-License-Identifier: Apache-2.0
"""Logging: one line per event, lower-case event names, the same keys everywhere (`cr`, `engine`, `generation`, ...)."""

import logging
import sys

import structlog

from tandem_operator.settings import LogFormat, LogLevel


def configure(log_format: LogFormat, level: LogLevel) -> None:
    """Send structlog's and every library's log lines to standard error, in one format."""
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _keys_as_text,
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    final: list[structlog.types.Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    match log_format:
        case "json":
            final += [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
        case "text":
            colors = sys.stderr.isatty()
            plain = structlog.dev.plain_traceback
            final += [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]
    handler = logging.StreamHandler()
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=final))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    if level != "debug":
        # kopf says for each event of each object that its handler succeeded; what we do about it is logged by ourselves.
        for chatty in ("kopf", "asyncio"):
            logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))


def _keys_as_text(_: object, __: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """A resource's key is one word, `namespace/name`, in all formats."""
    return {name: str(value) if isinstance(value, tuple) else value for name, value in event.items()}
