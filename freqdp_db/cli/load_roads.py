"""`freqdp load roads`: a road network from files or from a table that is there."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from freqdp_db.cli.console import Session, command
from freqdp_db.cli.load import Into, Replace, answer, mode_of
from freqdp_db.errors import BadInput
from freqdp_db.storage.connection.names import parse_relation


def register(app: typer.Typer) -> None:
    @command(app, "roads")
    def roads(
        session: Session,
        into: Into,
        files: Annotated[
            list[str] | None, typer.Argument(help="NODES.csv EDGES.csv, unless --from is given.")
        ] = None,
        from_: Annotated[
            str | None, typer.Option("--from", help="Edge table that is there: schema.table.")
        ] = None,
        map_: Annotated[
            list[str] | None,
            typer.Option("--map", help="With --from: ours=theirs, such as geom=the_geom."),
        ] = None,
        vertices_into: Annotated[
            str | None, typer.Option("--vertices-into", help="Also make a table of junctions.")
        ] = None,
        every: Annotated[
            float | None, typer.Option(help="Add points to it, every so many metres of road.")
        ] = None,
        replace: Replace = False,
    ) -> None:
        """Load a road network from two CSV files, or from an edge table that is there."""

        from freqdp_db.loading import roadfile
        from freqdp_db.storage.source import road_tables as loading_roads
        from freqdp_db.storage.source.plain_tables import check_target

        if (from_ is None) == (not files) or (files and len(files) != 2):
            raise BadInput(
                "the roads come from two files or from one table",
                remedy="give NODES.csv EDGES.csv, or --from schema.edges",
            )
        if every is not None and (vertices_into is None or not every >= 1):
            raise BadInput(
                f"--every {every:g} needs --vertices-into and at least 1 metre",
                remedy="say for example --vertices-into demo.anchors --every 50",
            )
        table = loading_roads.roads_table(
            parse_relation(into, "--into"), "Road network (freqdp load roads)."
        )
        anchors = None
        if vertices_into is not None:
            relation = parse_relation(vertices_into, "--vertices-into")
            anchors = loading_roads.anchors_table(relation, table.relation)
            if relation == table.relation:
                raise BadInput("--into and --vertices-into are the same", remedy="give two names")
        mode = mode_of(replace)
        progress = session.progress()
        left_out = 0
        points = None
        with session.database(check_schema=False).begin() as connection:
            for wanted in (table, anchors):
                if wanted is not None:
                    check_target(connection, session.settings, wanted, mode)
            with progress.stage("load roads", unit="roads") as stage:
                if from_ is not None:
                    origin = parse_relation(from_, "--from")
                    if origin == table.relation:
                        raise BadInput("--from and --into are the same", remedy="give two names")
                    rows, left_out = loading_roads.copy_roads(
                        connection,
                        session.settings,
                        table,
                        mode,
                        origin,
                        loading_roads.column_mapping(map_ or []),
                    )
                    stage.advance(rows)
                else:
                    assert files is not None
                    read = roadfile.read_roads(Path(files[0]), Path(files[1]))
                    rows = loading_roads.load_roads(
                        connection,
                        session.settings,
                        table,
                        mode,
                        (r.row() for r in read),
                        stage.advance,
                    )
            if not rows:
                raise BadInput("there is not one road in it", remedy="check the files or the table")
            if anchors is not None:
                with progress.stage("make anchors", unit="points") as stage:
                    points = loading_roads.make_anchors(
                        connection, session.settings, anchors, mode, table.relation, every
                    )
                    stage.advance(points)
        said = f"{table.label}: {rows:,} roads."
        following = f"freqdp evaluate RELEASE --roads {shlex.quote(table.label)}"
        if left_out:
            said += f" Left out {left_out:,} rows whose geometry is not one line."
        if anchors is not None:
            said += f" {anchors.label}: {points:,} points."
            following = (
                f"freqdp dataset add NAME ... --snap {shlex.quote('anchors:' + anchors.label)}"
            )
        answer(
            session,
            {
                "table": table.label,
                "rows": rows,
                "left_out": left_out,
                "vertices_table": anchors.label if anchors else None,
                "vertices": points,
            },
            said,
            following,
        )
