"""The worker's log: one JSON object a line, on stderr. Never a row, a coordinate or an object's key."""

from __future__ import annotations

import json
import sys
import traceback
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any, TextIO


class Log:
    """Writes events; each has an `action`, and the fields that belong to it."""

    def __init__(self, stream: TextIO | None = None, **always: Any) -> None:
        self._stream = stream or sys.stderr
        self._always = always

    def info(self, action: str, **fields: Any) -> None:
        self._write("info", action, fields)

    def warning(self, action: str, **fields: Any) -> None:
        self._write("warning", action, fields)

    def _write(self, level: str, action: str, fields: dict[str, Any]) -> None:
        event = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": level,
            "action": action,
            **self._always,
            **{key: value for key, value in fields.items() if value is not None},
        }
        self._stream.write(json.dumps(event, default=str, ensure_ascii=False) + "\n")
        self._stream.flush()


def place_of(error: BaseException) -> str:
    """The kind of an unexpected error and where it happened. Its text may quote a row: left out."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "freqdp_db" in PurePath(frame.filename).parts] or frames
    where = (
        f" at {'/'.join(PurePath(ours[-1].filename).parts[-2:])}:{ours[-1].lineno}" if ours else ""
    )
    return f"{type(error).__name__}{where}"
