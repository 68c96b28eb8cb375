"""Rows of `dataset`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, LiteralString

import psycopg
import sqlalchemy as sa

from freqdp_db.db.connection import Database
from freqdp_db.db.ledger import Claimed, claim_account, declare_unit
from freqdp_db.db.names import did_you_mean, format_name, format_relation
from freqdp_db.db.source import Mapping, choosing, untraced
from freqdp_db.db.tables import table, update_rows
from freqdp_db.errors import AlreadyExists, NotFound, Remark
from freqdp_db.privacy.guarantee import ProtectedUnit


@dataclass(frozen=True)
class DatasetRow:
    """A registered dataset."""

    dataset_id: int
    name: str
    account_id: int
    source_schema: str
    source_relation: str
    mapping: Mapping
    source_srid: int
    srid: int | None
    snap: str
    current_build: int | None
    region: str | None = None
    period: str | None = None
    """Public facts, as their owner says them."""
    max_exposure: float | None = None
    """The largest measured exposure with which a release is granted; None: any."""
    persons: str | None = None
    """The population whose persons its objects are, as the owner calls it."""
    unit: str = "person"
    """What its population's guarantees are for: person, person-day, person-week or person-month."""
    unit_timezone: str = "UTC"
    """Whose days, weeks and months these are."""

    @property
    def source(self) -> str:
        """The relation, as it can be typed again."""
        return format_relation(self.source_schema, self.source_relation)

    @property
    def protected(self) -> ProtectedUnit:
        """What a guarantee for one of its objects is for."""
        stretch = self.unit.removeprefix("person").removeprefix("-") or None
        return ProtectedUnit(
            format_name(self.mapping.object), self.source, self.persons, stretch, self.unit_timezone
        )

    def require_build(self) -> int:
        """The build that serves, or a refusal."""
        if self.current_build is None:
            raise NotFound(
                f"dataset {self.name!r} has not been built",
                remedy=f"freqdp dataset build {shlex.quote(self.name)}",
            )
        return self.current_build


_MAPPING = {
    f.name: f"{f.name}_column" if f.name in ("object", "time", "geom", "lon", "lat") else f.name
    for f in fields(Mapping)
}
"""Where each field of a mapping is stored."""


_SELECT: LiteralString = (
    "SELECT d.*, people.name AS persons, people.unit, people.timezone AS unit_timezone "
    "FROM {p}.dataset d JOIN {p}.account USING (account_id) "
    "JOIN {p}.population people USING (population_id) "
)


def _row(**columns: Any) -> DatasetRow:
    columns["keep_columns"] = tuple(columns["keep_columns"] or ())
    mapping = Mapping(**{name: columns[column] for name, column in _MAPPING.items()})
    others = {f.name: columns[f.name] for f in fields(DatasetRow) if f.name != "mapping"}
    return DatasetRow(mapping=mapping, **others)


def _select(database: Database, condition: LiteralString, *values: Any) -> list[DatasetRow]:
    return database.rows_as(_row, _SELECT + condition, values)


def find_dataset(database: Database, name: str) -> DatasetRow:
    found = _select(database, "WHERE d.name = %s AND d.dropped_at IS NULL", name)
    if not found:
        known = [row.name for row in list_datasets(database)]
        raise NotFound(
            f"there is no dataset {name!r}",
            remedy=did_you_mean(name, known) + "`freqdp dataset list` shows what there is",
        )
    return found[0]


def get_dataset(database: Database, dataset_id: int) -> DatasetRow:
    """A dataset by its number, also one that was dropped since."""
    (found,) = _select(database, "WHERE d.dataset_id = %s", dataset_id)
    return found


def living_dataset(database: Database, dataset_id: int) -> DatasetRow | None:
    """The dataset of this number, unless it was dropped."""
    found = _select(database, "WHERE d.dataset_id = %s AND d.dropped_at IS NULL", dataset_id)
    return found[0] if found else None


def list_datasets(database: Database) -> list[DatasetRow]:
    return _select(database, "WHERE d.dropped_at IS NULL ORDER BY d.name")


def insert_dataset(
    database: Database,
    *,
    name: str,
    source: tuple[str, str],
    mapping: Mapping,
    budget: Decimal,
    persons: str | None,
    unit: str | None,
    **facts: Any,
) -> tuple[DatasetRow, Claimed]:
    """Register a dataset; opens a budget unless the population that it is read from has one.

    unit: what guarantees for its persons are for, if it is said. facts: further columns of the table, by
    name.
    """
    with database.begin() as connection:
        datasets = table(connection, "dataset")
        claimed = claim_account(connection, source, mapping, persons, budget)
        if unit is not None:
            declare_unit(connection, claimed.account, unit, mapping.timezone)
        try:
            dataset_id = connection.core.execute(
                sa.insert(datasets)
                .values(
                    name=name,
                    account_id=claimed.account,
                    source_schema=source[0],
                    source_relation=source[1],
                    **{column: getattr(mapping, name) for name, column in _MAPPING.items()}
                    | {"keep_columns": list(mapping.keep_columns) or None},
                    **facts,
                )
                .returning(datasets.c.dataset_id)
            ).scalar_one()
        except sa.exc.IntegrityError as error:
            if isinstance(error.orig, psycopg.errors.UniqueViolation):
                raise AlreadyExists(
                    f"there is a dataset {name!r} already",
                    remedy=f"choose another name, or drop it: freqdp dataset drop {shlex.quote(name)}",
                ) from None
            raise
    return get_dataset(database, dataset_id), claimed


def untraced_sources(database: Database, dataset: DatasetRow) -> list[str]:
    """What a new budget cannot know of, in words: sources that lead nowhere, and likely copies."""
    mapping, source = dataset.mapping, (dataset.source_schema, dataset.source_relation)
    query = (
        "SELECT DISTINCT source_schema, source_relation FROM {p}.dataset WHERE account_id <> %s "
        "AND (source_schema, source_relation) <> (%s, %s) AND object_column = %s AND time_column = %s "
        "AND (geom_column, lon_column, lat_column) IS NOT DISTINCT FROM (%s::text, %s::text, %s::text)"
    )
    columns = [mapping.object, mapping.time, mapping.geom, mapping.lon, mapping.lat]
    nowhere = untraced(database, *source)
    alike = database.execute(query, [dataset.account_id, *source, *columns])
    return [
        *(
            f"what {what} reads cannot be traced: if it is a source with a budget, the two do not "
            "know of each other"
            for what in nowhere
        ),
        *(
            f"its columns have the names of those of {format_relation(*other)}: if it is a copy, which "
            "freqdp cannot tell, the same objects have two budgets. `freqdp dataset set DATASET --persons "
            "NAME`, for both, makes them one"
            for other in alike
        ),
    ]


def choosing_warnings(database: Database, dataset: DatasetRow) -> list[Remark]:
    """Where a source may choose rows by what other objects' rows are, in words."""
    found = choosing(
        database, dataset.source_schema, dataset.source_relation, dataset.mapping.filter
    )
    return [
        Remark(
            f"{what}: if whether a row of one object is there depends on other objects' rows, no "
            "guarantee for persons holds; choosing row by row or object by object is safe"
        )
        for what in found
    ]


def change_dataset(database: Database, dataset_id: int, **values: Any) -> None:
    """Set columns of a dataset's record, by name."""
    update_rows(database, "dataset", {"dataset_id": dataset_id}, **values)


def mark_dropped(database: Database, dataset_id: int) -> None:
    """Forget a dataset's name; the record stays."""
    change_dataset(database, dataset_id, dropped_at=sa.func.now())
