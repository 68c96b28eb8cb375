"""Which search a release uses: all segments in memory, or paged from the build's tables."""

from __future__ import annotations

import re

from freqdp_db.columns.arrays import Ints
from freqdp_db.columns.build import Build
from freqdp_db.edits.insertion import Search, search_in_memory
from freqdp_db.errors import BadInput
from freqdp_db.search.directory import CellRows, Directory
from freqdp_db.search.grid import Frame
from freqdp_db.search.paging import PagedSearch
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.builds import find_build, grid_of
from freqdp_db.storage.records.cells import all_cells, cell_segments

_UNITS = {"MB": 10**6, "GB": 10**9}
_INDEX_BYTES = 120
"""What the index in memory takes for a segment while it is made."""


def parse_memory(given: int | str) -> int:
    """Bytes, from what is written `256MB` or `4GB`, or is a number of bytes."""
    if isinstance(given, int) and given > 0:
        return given
    text = str(given)
    match = re.fullmatch(r"(\d+)\s*(MB|GB)", text.strip(), re.IGNORECASE)
    if match is None or int(match[1]) == 0:
        raise BadInput(
            f"[[memory]] {text!r} is not a size", remedy="write a whole number of MB or GB: 512MB"
        )
    return int(match[1]) * _UNITS[match[2].upper()]


def search_within(database: Database, build_id: int, build: Build, memory: int) -> Search:
    """A search that keeps the segments within so many bytes; the answers are the same."""
    row = find_build(database, build_id)
    if row.segments * _INDEX_BYTES <= memory:
        return search_in_memory
    with database.begin() as connection:
        cells = all_cells(connection, database, build_id)
        grid = grid_of(connection, database, build_id)
    frame = Frame(grid["x"], grid["y"], grid["side"], int(grid["levels"]))
    directory = Directory.of(frame, cells.cell, cells.segments, cells.box, cells.tree_box)

    def fetch(wanted: Ints) -> CellRows:
        with database.begin() as connection:
            rows = cell_segments(connection, database, build_id, wanted)
        return CellRows(rows.cell, rows.trajectory, rows.tail, rows.head)

    return PagedSearch(directory, fetch, build.trajectories, memory)
