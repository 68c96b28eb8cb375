"""The search over the tables of a build, and how much of them it may hold."""

from __future__ import annotations

import re

from freqdp_db.db.builds import all_cells, cell_segments, grid_of
from freqdp_db.db.connection import Database
from freqdp_db.errors import BadInput
from freqdp_db.methods.frequency.insertion import Search
from freqdp_db.model.arrays import Ids, Ints
from freqdp_db.model.trajectories import Build
from freqdp_db.search.grid import Frame
from freqdp_db.search.stored import GridSearch, StoredGrid

DEFAULT_MEMORY = 4 * 10**9
_UNITS = {"MB": 10**6, "GB": 10**9}


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
    """The search over the grid of a build, which holds so many bytes of its segments at most."""
    with database.begin() as connection:
        cells = all_cells(connection, database, build_id)
        frame = grid_of(connection, database, build_id)

    def read(wanted: Ints | None) -> tuple[Ids, Ids]:
        with database.begin() as connection:
            return cell_segments(connection, database, build_id, wanted)

    grid = StoredGrid(
        Frame(frame["x"], frame["y"], frame["side"], int(frame["levels"])),
        cells.cell,
        cells.segments,
        cells.box,
        read,
    )
    return GridSearch(grid, build.trajectories, memory)
