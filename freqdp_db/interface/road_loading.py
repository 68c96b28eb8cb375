"""A road network from files, or from a table that is there."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from freqdp_db.documents import Document
from freqdp_db.errors import BadInput
from freqdp_db.interface.connecting import Connection, mode_of, reached, working
from freqdp_db.loading import roadfile
from freqdp_db.progress import Progress
from freqdp_db.storage.connection.names import parse_relation
from freqdp_db.storage.source import road_tables
from freqdp_db.storage.source.plain_tables import check_target
from freqdp_db.storage.source.relations import read_name


@dataclass(frozen=True)
class LoadedRoads(Document):
    """A table of roads and, if asked for, one of junctions."""

    table: str
    rows: int
    left_out: int
    vertices_table: str | None
    vertices: int | None
    next: str

    def lines(self) -> list[str]:
        said = f"{self.table}: {self.rows:,} roads."
        if self.left_out:
            said += f" Left out {self.left_out:,} rows whose geometry is not one line."
        if self.vertices_table is not None:
            said += f" {self.vertices_table}: {self.vertices:,} points."
        return [said, f"Next: {self.next}"]


def load_roads(
    connection: Connection,
    into: str,
    files: Sequence[str] | None = None,
    *,
    source: str | None = None,
    map: Sequence[str] | None = None,
    vertices_into: str | None = None,
    every: float | None = None,
    replace: bool = False,
    progress: Progress | None = None,
) -> LoadedRoads:
    """Load a road network from two CSV files, nodes and edges, or from an edge table that is there.

    source: the edge table; map: which of its columns is which, such as `geom=the_geom`.
    vertices_into: make a table of junctions, too; every: add points to it, every so many metres.
    """
    if (source is None) == (not files) or (files and len(files) != 2):
        raise BadInput(
            "the roads come from two files or from one table",
            remedy="give NODES.csv EDGES.csv, or --from schema.edges",
        )
    if every is not None and (vertices_into is None or not every >= 1):
        raise BadInput(
            f"--every {every:g} needs --vertices-into and at least 1 metre",
            remedy="say for example --vertices-into demo.anchors --every 50",
        )
    table = road_tables.roads_table(
        parse_relation(into, "--into"), "Road network (freqdp load roads)."
    )
    anchors = None
    if vertices_into is not None:
        relation = parse_relation(vertices_into, "--vertices-into")
        anchors = road_tables.anchors_table(relation, table.relation)
        if relation == table.relation:
            raise BadInput("--into and --vertices-into are the same", remedy="give two names")
    mode, shown = mode_of(replace), working(progress)
    left_out, points = 0, None
    with reached(connection, check_schema=False) as database, database.begin() as session:
        settings = database.settings
        for wanted in (table, anchors):
            if wanted is not None:
                check_target(session, settings, wanted, mode)
        with shown.stage("load roads", unit="roads") as stage:
            if source is not None:
                origin = read_name(session, source, "--from")
                if origin == table.relation:
                    raise BadInput("--from and --into are the same", remedy="give two names")
                mapping = road_tables.column_mapping(map or [])
                rows, left_out = road_tables.copy_roads(
                    session, settings, table, mode, origin, mapping
                )
                stage.advance(rows)
            else:
                nodes, edges = files or ()
                read = (r.row() for r in roadfile.read_roads(Path(nodes), Path(edges)))
                rows = road_tables.load_roads(session, settings, table, mode, read, stage.advance)
        if not rows:
            raise BadInput("there is not one road in it", remedy="check the files or the table")
        if anchors is not None:
            with shown.stage("make anchors", unit="points") as stage:
                points = road_tables.make_anchors(
                    session, settings, anchors, mode, table.relation, every
                )
                stage.advance(points)
    following = f"freqdp evaluate RELEASE --roads {shlex.quote(table.label)}"
    if anchors is not None:
        following = f"freqdp dataset add NAME ... --snap {shlex.quote('anchors:' + anchors.label)}"
    return LoadedRoads(
        table.label, rows, left_out, anchors.label if anchors else None, points, following
    )
