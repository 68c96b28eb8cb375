"""What a method reads besides the build: relations that its parameters name, and what must be public."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from freqdp_db.dataset.facts import coverage_of, facts_in, facts_of
from freqdp_db.dataset.projection import SourceCoordinates
from freqdp_db.dataset.text_values import Snap
from freqdp_db.db.builds import BuildRow, all_cells, cell_segments, grid_of
from freqdp_db.db.connection import Connection, Database
from freqdp_db.db.datasets import DatasetRow, choosing_warnings
from freqdp_db.db.ledger import require_unit
from freqdp_db.db.source import (
    definition_of,
    read_name,
    require_not_from,
    require_readable_by,
    untraced,
)
from freqdp_db.errors import BadInput, NotFound, PermissionMissing, in_options, named
from freqdp_db.methods.contract import Method, Need, StepContext, options_of
from freqdp_db.model.arrays import Ids, Ints
from freqdp_db.model.trajectories import Build
from freqdp_db.release.request import Request
from freqdp_db.search.grid import Frame
from freqdp_db.search.stored import GridSearch, StoredGrid

if TYPE_CHECKING:
    from freqdp_db.methods.frequency.insertion import Search


def make_world(
    database: Database,
    build: Build,
    method: Method,
    values: Mapping[str, Any],
    search: Search | None = None,
    *,
    release: str | None = None,
) -> StepContext:
    """What the steps of a method may read. release: the one that was made from it before."""
    try:
        inputs = read_inputs(database, build, build.timezone, method, values)
    except (NotFound, BadInput, PermissionMissing) as error:
        if release is None:
            raise
        raise NotFound(
            f"release {release!r} was made from more than its dataset, and that cannot be read any more: "
            f"{error.text}",
            remedy="bring the table or view back as it was: a backup of freqdp's schemas does not hold it",
        ) from None
    return StepContext(build, search, inputs, facts_of(build), coordinates=SourceCoordinates(build))


def read_inputs(
    database: Database,
    build: Build | BuildRow,
    timezone: str,
    method: Method,
    values: Mapping[str, Any],
) -> dict[str, Any]:
    """Everything that a method needs, by the parameter that names it; raises BadInput."""
    needs = [n for n in method.needs if n.parameter in values or not n.optional]
    if not needs and "region" not in values:
        return {}
    with database.begin(snapshot=True) as connection:
        found = {n.parameter: _read(database, connection, build, method, n, values) for n in needs}
        facts = facts_in(build.srid, definition_of(connection, build.srid, "SRID"), timezone)
    for step in method.steps:
        step.require_inputs(options_of(step, values), found, facts)
    return found


def require_readable(
    database: Database, method: Method, values: Mapping[str, Any], logins: Iterable[str]
) -> None:
    """Refuse relations that whoever asks may not read: who works for them may read more."""
    with database.begin(snapshot=True) as connection:
        for need in method.needs:
            if isinstance(text := values.get(need.parameter), str):
                option = named(need.parameter)
                relation = read_name(connection, text, option)
                for login in logins:
                    require_readable_by(connection, relation, login, option)


def _read(
    database: Database,
    connection: Connection,
    build: Build | BuildRow,
    method: Method,
    need: Need,
    values: Mapping[str, Any],
) -> Any:
    option = named(need.parameter)
    if need.parameter not in values:
        others = ", grid:500m or h3:8" if need.reader == "zones" else ""
        raise BadInput(
            f"{method.name} needs {option}", remedy=f"name a table: {option} schema.table{others}"
        )
    given = values[need.parameter]
    if need.reader == "zones":
        from freqdp_db.db.source_zones import read_zones

        columns = {name: values.get(parameter) for name, parameter in need.columns.items()}
        return read_zones(
            connection, given, values["region"], build.srid, build.source_srid,
            later=partial(database.begin, snapshot=True), **columns,
        )  # fmt: skip
    relation = read_name(connection, given, option)
    from freqdp_db.db.source_maps import read_points, read_roads

    if need.reader == "roads":
        from freqdp_db.roads.network import make_network

        return make_network(read_roads(connection, relation, build.srid, {}))
    category = need.columns["category"]
    return read_points(
        connection, relation, build.srid, values[category],
        option=option, category_option=named(category),
    )  # fmt: skip


def require_public_inputs(
    connection: Connection, dataset: DatasetRow, build: BuildRow, request: Request
) -> None:
    """For persons, refuse another unit than the budget counts, and what would let one object's rows decide
    what becomes of those of others."""
    if request.method.unit != "person":
        return
    require_unit(connection, dataset.dataset_id, build.build_id)
    _require_times(dataset, build, request)
    require_public_tables(connection, dataset, build, request)


def require_public_tables(
    connection: Connection, dataset: DatasetRow, build: BuildRow, request: Request
) -> None:
    """For persons, refuse tables that are taken as public and read the data: as they are now."""
    if request.method.unit != "person":
        return
    source = dataset.source_schema, dataset.source_relation
    for option, relation in _public_tables(connection, build, request):
        require_not_from(connection, option, relation, source, build.build_id)


def _public_tables(
    connection: Connection, build: BuildRow, request: Request
) -> list[tuple[str, tuple[str, str]]]:
    """The tables that are taken as public, each with the option that names it."""
    found = []
    for need in request.method.needs:
        # zones may be those of a grid
        if isinstance(text := request.values.get(need.parameter), str):
            option = named(need.parameter)
            found.append((option, read_name(connection, text, option)))
    if (anchors := Snap.parse(build.snap).relation) is not None:
        found.append(("[[snap]] anchors:", anchors))
    return found


def _require_times(dataset: DatasetRow, build: BuildRow, request: Request) -> None:
    """Times of a build that were read row by row."""
    again = f"freqdp dataset build {shlex.quote(dataset.name)}"
    declared = dataset.mapping.time_unit
    if build.time_unit is None:
        raise BadInput(
            f"build {build.build_id} was made by an earlier version, in which one far row could move "
            "the samples of others",
            remedy=f"make a new one: {again}",
        )
    if build.time_unit == "guessed" and declared is None:
        raise BadInput(
            f"the times of {dataset.name} are epoch numbers, and what they count was guessed from all "
            f"rows: [[method]] {request.method.name} needs it declared",
            remedy=f"freqdp dataset set {shlex.quote(dataset.name)} --time-unit s|ms|us|ns, then {again}",
        )
    if build.time_unit not in ("timestamp", declared):
        raise BadInput(
            f"build {build.build_id} did not read epoch numbers as [[time_unit]] {declared}",
            remedy=f"make a new one: {again}",
        )


def notes_for_persons(
    database: Database, dataset: DatasetRow, build: BuildRow, request: Request
) -> list[str]:
    """What the curator should know before a release with a guarantee for persons is made."""
    if request.method.unit != "person":
        return []
    covered = coverage_of(
        database, dataset, build, request.values["region"], request.values["period"]
    )
    warnings = [remark.text for remark in choosing_warnings(database, dataset)]
    with database.begin() as connection:
        warnings += [
            f"what {what} reads, which {option} names, cannot be traced: it must not be made "
            "from the data"
            for option, relation in _public_tables(connection, build, request)
            for what in untraced(connection, *relation)
        ]
    said = [*covered.lines(dataset.name), *(f"Warning: {what}." for what in warnings)]
    return [in_options(line) for line in said]


def notes_on_columns(request: Request) -> list[str]:
    """What the curator should know where a method cannot carry along what the build has."""
    if not request.kept or request.method.keeps_columns:
        return []
    names = ", ".join(name for name, _ in request.kept)
    return [
        f"Note: method {request.method.name} cannot carry {names} along: the release is without."
    ]


# The search over the tables of a build, and how much of them it may hold.


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
        cells = all_cells(connection, build_id)
        frame = grid_of(connection, build_id)

    def read(wanted: Ints | None) -> tuple[Ids, Ids]:
        with database.begin() as connection:
            return cell_segments(connection, build_id, wanted)

    own = Frame(frame["x"], frame["y"], frame["side"], int(frame["levels"]))
    return GridSearch(StoredGrid(own, *cells, read), build.trajectories, memory)
