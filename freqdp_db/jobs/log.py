"""The worker's log: the logger `freqdp`. Never a row, a coordinate or an object's key.

A record's message is what happened, its `fields` are what belongs to it. `freqdp worker` writes them as
one JSON object a line; whoever runs a worker from Python attaches handlers as to any logger.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any, TextIO

from freqdp_db.model.documents import json_text


class _Events(logging.LoggerAdapter[logging.Logger]):
    """Takes the fields of an event as keywords."""

    def process(
        self, msg: str, kwargs: MutableMapping[str, Any]
    ) -> tuple[str, MutableMapping[str, Any]]:
        return msg, {"extra": {"fields": {k: v for k, v in kwargs.items() if v is not None}}}


LOG = _Events(logging.getLogger("freqdp"), {})


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        event = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "action": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        return json_text(event)


@contextmanager
def json_lines(stream: TextIO | None = None) -> Iterator[None]:
    """Write the log to a stream (stderr), one JSON object a line, while the block runs."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonLines())
    level = LOG.logger.level
    LOG.logger.addHandler(handler)
    LOG.logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.logger.removeHandler(handler)
        LOG.logger.setLevel(level)


def place_of(error: BaseException) -> str:
    """The kind of an unexpected error and where it happened. Its text may quote a row: left out."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "freqdp_db" in PurePath(frame.filename).parts] or frames
    where = (
        f" at {'/'.join(PurePath(ours[-1].filename).parts[-2:])}:{ours[-1].lineno}" if ours else ""
    )
    return f"{type(error).__name__}{where}"
