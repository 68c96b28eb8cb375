"""Files into plain tables, for people who have none yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from freqdp_db.documents import Document
from freqdp_db.errors import BadInput
from freqdp_db.interface.connecting import Connection, mode_of, reached, working
from freqdp_db.interface.sample_tables import dataset_add, sample_columns, samples_table
from freqdp_db.loading import csvfile, published
from freqdp_db.loading.csvformat import ENDINGS, CsvFormat
from freqdp_db.loading.files import BadRows, counted, expand, total_bytes
from freqdp_db.loading.rows import SourceSamples
from freqdp_db.progress import Progress
from freqdp_db.storage.connection.names import parse_relation
from freqdp_db.storage.source.plain_tables import (
    Column,
    Mode,
    PlainTable,
    check_target,
    load_table,
)


@dataclass(frozen=True)
class LoadedFiles(Document):
    """Files of a publisher's."""

    table: str
    rows: int
    files: int
    next: str

    def lines(self) -> list[str]:
        return [
            f"{self.table}: {self.rows:,} rows from {self.files:,} files.",
            f"Next: {self.next}",
        ]


@dataclass(frozen=True)
class LoadedCsv(Document):
    """CSV files, and how many of their rows could not be read, by reason."""

    table: str
    rows: int
    files: int
    skipped: dict[str, int]
    next: str

    def lines(self) -> list[str]:
        left, total = "", sum(self.skipped.values())
        if total:
            left = f" Left out {total:,} unreadable rows: {counted(self.skipped)}."
        return [
            f"{self.table}: {self.rows:,} rows from {self.files:,} file(s).{left}",
            f"Next: {self.next}",
        ]


def load_csv(
    connection: Connection,
    files: Sequence[str],
    into: str,
    *,
    object: str | None = None,
    object_from_file: bool = False,
    time: str,
    lon: str,
    lat: str,
    delimiter: str = ",",
    header: bool = True,
    time_format: str = "iso",
    timezone: str = "UTC",
    srid: int = 4326,
    skip_bad: bool = False,
    replace: bool = False,
    append: bool = False,
    progress: Progress | None = None,
) -> LoadedCsv:
    """Load CSV files: files, globs or folders; object, time, lon and lat say which column is what.

    object_from_file: there is no such column; the name of each file, without its ending, is the
    object. header: without one, columns are numbers from 1. time_format: iso, epoch, epoch-ms, or a format
    such as '%d/%m/%Y %H:%M'. skip_bad: leave unreadable rows out, and count them.
    """
    if (object is None) != object_from_file:
        raise BadInput(
            "the object is needed: one of --object and --object-from-file",
            remedy="name its column with --object, or say that each file's name is it",
        )
    paths = expand(files, ENDINGS)
    layout = CsvFormat(object, time, lon, lat, delimiter, header, time_format, timezone)
    comment = "Trajectories from CSV files (freqdp load csv)."
    table = samples_table(parse_relation(into, "--into"), "text", comment, srid=srid)
    bad = BadRows()

    def read(advance: Callable[[int], None]) -> Iterator[SourceSamples]:
        yield from csvfile.read_csv(paths, layout, bad, advance)
        # once all files were read
        if not skip_bad:
            bad.refuse("correct them, or say --skip-bad")

    mode = mode_of(replace, append)
    rows = _load_files(connection, table, mode, paths, read, working(progress))
    return LoadedCsv(table.label, rows, len(paths), bad.counts, dataset_add(table))


def load_tdrive(
    connection: Connection,
    folder: str,
    into: str,
    *,
    limit: int | None = None,
    min_samples: int = 0,
    replace: bool = False,
    append: bool = False,
    progress: Progress | None = None,
) -> LoadedFiles:
    """Load the T-Drive taxi data as its publisher ships it. Nothing is cleaned here.

    limit: only the first so many taxis. min_samples: leave out taxis with fewer rows.
    """
    if limit is not None and limit < 1:
        raise BadInput(f"--limit {limit} leaves no taxi", remedy="give a number from 1 on")
    paths = published.tdrive_files(folder, limit, min_samples)
    comment = "T-Drive taxis as published (freqdp load tdrive)."
    table = samples_table(parse_relation(into, "--into"), "int4", comment, key="taxi_id")
    read = partial(published.read_tdrive, paths)
    rows = _load_files(connection, table, mode_of(replace, append), paths, read, working(progress))
    return LoadedFiles(table.label, rows, len(paths), dataset_add(table))


def load_geolife(
    connection: Connection,
    folder: str,
    into: str,
    *,
    replace: bool = False,
    append: bool = False,
    progress: Progress | None = None,
) -> LoadedFiles:
    """Load the GeoLife data as its publisher ships it. Nothing is cleaned here."""
    paths = published.geolife_files(folder)
    table = samples_table(
        parse_relation(into, "--into"),
        "text",
        "GeoLife trajectories as published (freqdp load geolife).",
        Column("altitude", "float8", "Altitude in feet; NULL where the publisher has -777."),
        key="user_id",
    )
    read = partial(published.read_geolife, paths)
    rows = _load_files(connection, table, mode_of(replace, append), paths, read, working(progress))
    return LoadedFiles(table.label, rows, len(paths), dataset_add(table))


def _load_files(
    connection: Connection,
    table: PlainTable,
    mode: Mode,
    files: Sequence[Path],
    read: Callable[[Callable[[int], None]], Iterable[SourceSamples]],
    progress: Progress,
) -> int:
    """Read and load in one transaction."""
    key = table.columns[0].name
    with (
        reached(connection, check_schema=False) as database,
        database.begin() as session,
        progress.stage("load files", total_bytes(files), "bytes") as stage,
    ):
        check_target(session, database.settings, table, mode)
        chunks = (sample_columns(samples, key) for samples in read(stage.advance))
        rows = load_table(session, database.settings, table, mode, chunks)
        if not rows:
            raise BadInput("there is not one readable row in it", remedy="check the files")
    return rows
