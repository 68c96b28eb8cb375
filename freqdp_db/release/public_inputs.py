"""What a guarantee for persons takes as public: checked before anything is spent."""

from __future__ import annotations

import shlex

from freqdp_db.dataset.coverage import coverage_of
from freqdp_db.dataset.snapping import Snap
from freqdp_db.errors import BadInput, in_options, named
from freqdp_db.release.request import Request
from freqdp_db.storage.connection.engine import Connection, Database
from freqdp_db.storage.records.builds import BuildRow
from freqdp_db.storage.records.datasets import DatasetRow, choosing_warnings
from freqdp_db.storage.source.lineage import require_not_from, untraced
from freqdp_db.storage.source.relations import read_name


def require_public_inputs(
    connection: Connection,
    database: Database,
    dataset: DatasetRow,
    build: BuildRow,
    request: Request,
) -> None:
    """For persons, refuse what would let one object's rows decide what becomes of those of others."""
    if request.method.unit != "person":
        return
    _require_times(dataset, build, request)
    source = dataset.source_schema, dataset.source_relation
    for option, relation in _public_tables(connection, build, request):
        require_not_from(connection, database, option, relation, source)


def _public_tables(
    connection: Connection, build: BuildRow, request: Request
) -> list[tuple[str, tuple[str, str]]]:
    """The tables that are taken as public, each with the option that names it."""
    found = []
    for need in request.method.needs:
        if (text := request.values.get(need.parameter)) is not None:
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
    warnings = choosing_warnings(database, dataset)
    with database.begin() as connection:
        warnings += [
            f"what {what} reads, which {in_options(option)} names, cannot be traced: it must not be made "
            "from the data"
            for option, relation in _public_tables(connection, build, request)
            for what in untraced(connection, database, *relation)
        ]
    return [*covered.lines(dataset.name), *(f"Warning: {what}." for what in warnings)]
