"""Which search a release uses: all segments in memory, or paged from the build's tables."""

from __future__ import annotations

import re
from dataclasses import replace

from freqdp_db.columns.arrays import Ints
from freqdp_db.errors import BadInput
from freqdp_db.release.verification import Loaded
from freqdp_db.search.directory import CellRows, Directory
from freqdp_db.search.grid import Frame
from freqdp_db.search.paging import PagedSearch
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.cells import all_cells, cell_segments

_UNITS = {"MB": 10**6, "GB": 10**9}
_INDEX_BYTES = 120
"""What the index in memory takes for a segment while it is made."""


def parse_memory(text: str) -> int:
    """`256MB`, `4GB`: bytes."""
    match = re.fullmatch(r"(\d+)\s*(MB|GB)", text.strip(), re.IGNORECASE)
    if match is None or int(match[1]) == 0:
        raise BadInput(
            f"--memory {text!r} is not a size", remedy="write a whole number of MB or GB: 512MB"
        )
    return int(match[1]) * _UNITS[match[2].upper()]


def within_memory(database: Database, loaded: Loaded, memory: int) -> Loaded:
    """The same build, searched in a way that keeps the segments within so many bytes."""
    build = loaded.build
    if build.segments * _INDEX_BYTES <= memory:
        return loaded
    with database.begin() as connection:
        cells = all_cells(connection, database, build.build_id)
    frame = Frame(build.grid["x"], build.grid["y"], build.grid["side"], int(build.grid["levels"]))
    directory = Directory.of(frame, cells.cell, cells.segments, cells.box, cells.tree_box)

    def fetch(wanted: Ints) -> CellRows:
        with database.begin() as connection:
            rows = cell_segments(connection, database, build.build_id, wanted)
        return CellRows(rows.cell, rows.trajectory, rows.tail, rows.head)

    search = PagedSearch(directory, fetch, loaded.trajectories, memory)
    return replace(loaded, world=replace(loaded.world, search=search))
