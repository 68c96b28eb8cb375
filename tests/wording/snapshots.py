"""What is said to people, kept in files beside the tests: a sentence is improved with one edit.

FREQDP_WRITE_SNAPSHOTS=1 writes the files anew. Read what changed before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

_HERE = Path(__file__).parent


def require_same(name: str, said: str) -> None:
    """`said` is what the file of this name holds."""
    file = _HERE / name
    if os.environ.get("FREQDP_WRITE_SNAPSHOTS"):
        file.write_text(said, "utf-8")
    assert said == file.read_text("utf-8"), f"{name} says something else"
