"""Names of datasets and releases are names of files, too: those that are written where none is named."""

from __future__ import annotations

from pathlib import Path

from freqdp_db.errors import BadInput


def names_a_file(name: str) -> bool:
    """Whether a file in this folder can be called so: nothing that leads elsewhere or cannot be seen."""
    # as the SQL function is_release_name has it
    return not name.startswith(".") and not any(c in "/\\\x7f" or c < " " for c in name)


def file_called(name: str, suffix: str) -> Path:
    """The file of a release or dataset where none was named. Those of older versions have any name."""
    if not names_a_file(name):
        raise BadInput(f"{name!r} cannot give a file its name", remedy="name the file with [[out]]")
    return Path(f"{name}{suffix}")
