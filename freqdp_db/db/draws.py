"""Draws and logs of steps: named columns, in tables of their own where SQL reads them.

Targets and edits of frequencies are read by people and by checks in SQL, so each has a table. All
other draws and logs are kept column by column, whatever the method calls them, as arrays of whole
numbers or of numbers: the view `step_value` has a row for each value.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, TypeAlias

import numpy as np
from psycopg import sql

from freqdp_db.db.connection import Connection, driver
from freqdp_db.db.copy import (
    RUN_COLUMNS,
    ArrayDumper,
    ArrayOf,
    Layout,
    array_from,
    encode_runs,
    read_arrays,
    read_runs,
    write_records,
)
from freqdp_db.db.statements import execute, private_name, select_own
from freqdp_db.errors import BadData, VerificationFailed
from freqdp_db.model.edits import EditLog, EditRuns, Edits, Operation, PfTargets, TfTargets

Part: TypeAlias = Literal["draw", "log"]
_OWNER: list[tuple[str, Any]] = [("release_id", "int4"), ("step", "int2")]
_TARGETS: dict[type, tuple[str, Layout, tuple[str, ...]]] = {
    TfTargets: (
        "tf_target",
        Layout([("location_id", "int4"), ("tf", "int4"), ("target", "int4")]),
        ("location_id",),
    ),
    PfTargets: (
        "pf_target",
        Layout(
            [
                ("trajectory_id", "int4"),
                ("location_id", "int4"),
                ("stage", "int2"),
                ("rank", "int2"),
                ("pf", "int4"),
                ("target", "int4"),
            ]
        ),
        ("trajectory_id", "rank"),
    ),
}
"""Table, columns in the order of the fields, and the order of rows."""
_CHUNK = 1 << 20
"""Values in a row of `step_column`."""


def save_columns(
    connection: Connection, release_id: int, step: int, part: Part, columns: Any
) -> None:
    """Keep a draw or a log, inside the caller's transaction."""
    raw = driver(connection)
    if isinstance(columns, EditLog):
        # those of workers come one range after the other: they are never here all at once
        write_records(
            raw,
            private_name(connection, "edit_run"),
            ["release_id", "step", "operation", *RUN_COLUMNS],
            (
                rows
                for edits in columns.partitions
                for runs in (edits.deletions, edits.insertions)
                for rows in encode_runs(runs, release_id, step)
            ),
        )
        return
    if type(columns) in _TARGETS:
        name, own, _ = _TARGETS[type(columns)]
        layout = Layout([*_OWNER, *own.columns])
        values = dict(
            zip(own.names, (getattr(columns, f.name) for f in fields(columns)), strict=True)
        )
        packed = layout.pack(release_id=release_id, step=step, **values)
        write_records(raw, private_name(connection, name), layout.names, [packed])
        return
    statement = (
        "INSERT INTO {p}.step_column (release_id, step, part, name, chunk, dtype, whole, number) "
        "VALUES (%s, %s, %s, %s, %s, %s, %b::int8[], %b::float8[])"
    )
    raw.adapters.register_dumper(ArrayOf, ArrayDumper)
    for field in fields(columns):
        column = np.asarray(getattr(columns, field.name))
        for chunk, begin in enumerate(range(0, max(len(column), 1), _CHUNK)):
            part_of = column[begin : begin + _CHUNK]
            kept = (
                (None, ArrayOf("float8", part_of))
                if column.dtype.kind == "f"
                else (ArrayOf("int8", part_of), None)
            )
            about = (release_id, step, part, field.name, chunk, column.dtype.str)
            execute(connection, statement, [*about, *kept])


def load_columns(connection: Connection, release_id: int, step: int, part: Part, kind: type) -> Any:
    """A draw or a log of this kind, as it was kept; the log of edits: see `load_edits`."""
    raw = driver(connection)
    if kind in _TARGETS:
        name, layout, order = _TARGETS[kind]
        query = select_own(connection, name, layout.names, *order, release_id=release_id, step=step)
        found = read_arrays(raw, query, layout)
        return kind(*(found[column] for column in layout.names))
    parts: dict[str, list[Any]] = {}
    cursor = raw.execute(
        sql.SQL(
            "SELECT name, dtype, whole, number FROM {} WHERE release_id = %s AND step = %s AND part = %s "
            "ORDER BY name, chunk"
        ).format(private_name(connection, "step_column")),
        [release_id, step, part],
        binary=True,
    )
    rows = cursor.pgresult
    assert rows is not None
    for row in range(rows.ntuples):
        column, dtype, whole, number = (rows.get_value(row, k) or b"" for k in range(4))
        values = array_from("int8", whole) if whole else array_from("float8", number)
        parts.setdefault(column.decode(), []).append(values.astype(dtype.decode(), copy=False))
    expected = {field.name for field in fields(kind)}
    if expected != parts.keys():
        differ = ", ".join(sorted(expected ^ parts.keys()))
        raise VerificationFailed(
            f"step {step}: its {part} is not stored as this version keeps it (these differ: {differ})"
        )
    return kind(**{name: np.concatenate(chunks) for name, chunks in parts.items()})


def load_edits(
    connection: Connection,
    release_id: int,
    step: int,
    part: tuple[int | None, int | None] = (None, None),
) -> Edits:
    """The edits of a step; part: of the trajectories from one on, and before another."""

    def runs(operation: Operation) -> EditRuns:
        kept = select_own(
            connection, "edit_run", RUN_COLUMNS, part=part,
            release_id=release_id, step=step, operation=operation,
        )  # fmt: skip
        return read_runs(driver(connection), kept, operation)

    try:
        return Edits(runs("d"), runs("i"))
    except BadData:
        raise VerificationFailed("the edit log holds edits without a position or a loss") from None
