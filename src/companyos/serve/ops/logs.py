"""Logs: one line per event, as text or JSON, with the id of the request."""

import logging
import logging.config
from typing import Any

import msgspec

from companyos.serve.ops.settings import Settings

REQUESTS = logging.getLogger("companyos.requests")
# The fields that every record has, or that uvicorn adds; all others were passed as `extra`.
_STANDARD_FIELDS = frozenset([*vars(logging.makeLogRecord({})), "message", "asctime", "color_message"])


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **_extra_fields(record),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class TextLines(logging.Formatter):
    """Formats a record as text: the event, then its fields."""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record) + "".join(f" {name}={value}" for name, value in _extra_fields(record).items())


def _extra_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields that were passed as `extra`. Names with an underscore are skipped: Ray adds one to every record."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS and not name.startswith("_")}


class NoSocketUrls(logging.Filter):
    """Drops the line that uvicorn logs for each WebSocket: it contains the URL, which may contain a session id."""

    def filter(self, record: logging.LogRecord) -> bool:
        return '"WebSocket ' not in str(record.msg)


def configuration(settings: Settings) -> dict[str, Any]:
    """Return the configuration for `logging.config`: the server and its libraries log to stderr in one format."""
    formatters = {
        "text": {"()": TextLines, "format": "%(asctime)s %(levelname)s %(message)s"},
        "json": {"()": JsonLines},
    }
    loggers = {
        "companyos": {"level": settings.log_level.upper()},
        "uvicorn": {"level": "INFO"},
        "mcp": {"level": "ERROR"},  # it warns about every invented tool name that an agent calls
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": formatters,
        "filters": {"no socket urls": {"()": NoSocketUrls}},
        "handlers": {
            "stderr": {"class": "logging.StreamHandler", "formatter": settings.log_format, "filters": ["no socket urls"]}
        },
        "loggers": loggers,
        "root": {"handlers": ["stderr"], "level": "WARNING"},
    }
