"""What is said to people, kept in files beside the tests: a sentence is improved with one edit.

FREQDP_WRITE_SNAPSHOTS=1 writes the files anew. Read what changed before you commit it.
"""

from __future__ import annotations

import os
from difflib import unified_diff
from pathlib import Path

_HERE = Path(__file__).parent


def require_same(name: str, said: str) -> None:
    """`said` is what the file of this name holds."""
    file = _HERE / name
    if os.environ.get("FREQDP_WRITE_SNAPSHOTS"):
        file.write_text(said, "utf-8")
    known = file.read_text("utf-8")
    changed = unified_diff(
        known.splitlines(), said.splitlines(), name, "said now", lineterm="", n=1
    )
    assert said == known, "\n".join(changed)
