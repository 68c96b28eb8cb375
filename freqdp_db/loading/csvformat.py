"""What was said about CSV files, and what to say when nothing in them fits it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from freqdp_db.errors import BadInput
from freqdp_db.loading.files import BadRows

LONGEST_ID = 200
ENDINGS = (".csv", ".csv.gz", ".txt", ".txt.gz", ".tsv", ".tsv.gz")
NO_OBJECT = "no object"
LONG_OBJECT = f"object of more than {LONGEST_ID} bytes"
NO_SUCH_TIME = "no such time"
NO_SUCH_COORDINATE = "no such coordinate"
UNEVEN = "another number of columns"
OPENING = 5_000
"""So many rows that all fail for one reason are enough to blame the options."""


@dataclass(frozen=True)
class CsvFormat:
    """Where the columns are (names, or numbers from 1 without a header) and how to read them."""

    object: str | None
    """None: the file's name is the object."""
    time: str
    lon: str
    lat: str
    delimiter: str = ","
    header: bool = True
    time_format: str = "iso"
    timezone: str = "UTC"

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        named = () if self.object is None else (("[[object]]", self.object),)
        return (*named, ("[[time]]", self.time), ("[[lon]]", self.lon), ("[[lat]]", self.lat))


def object_of(path: Path) -> str:
    """The file's name without its ending."""
    ending = max((e for e in ENDINGS if path.name.lower().endswith(e)), key=len, default="")
    name = path.name.removesuffix(path.name[len(path.name) - len(ending) :]) or path.name
    if len(name.encode()) > LONGEST_ID:
        raise BadInput(
            f"the object of {path} would have more than {LONGEST_ID} bytes",
            remedy="give the file a shorter name, or say which column it is with [[object]]",
        )
    return name


def refuse_misfit(layout: CsvFormat, bad: BadRows) -> None:
    """Blame an option if not one row could be read and all failed for one reason."""
    if bad.good or len(bad.counts) != 1:
        return
    ((reason, count),) = bad.counts.items()
    rows = f"not one of the first {count:,} rows"
    said, remedy = {
        NO_OBJECT: (f"[[object]] {layout.object}: {rows} has one", "check which column it is"),
        LONG_OBJECT: (
            f"[[object]] {layout.object}: {rows} has one of up to {LONGEST_ID} bytes",
            "check which column it is",
        ),
        NO_SUCH_TIME: (
            f"[[time_format]] {layout.time_format} does not fit [[time]] {layout.time}: {rows} has "
            "such a time",
            "say how times are written: iso, epoch, epoch-ms, or a format such as "
            "[[time_format]] '%d/%m/%Y %H:%M:%S'",
        ),
        NO_SUCH_COORDINATE: (
            f"[[lon]] {layout.lon} and [[lat]] {layout.lat}: {rows} has two numbers there",
            "check which columns they are; a decimal comma has to become a point first",
        ),
        UNEVEN: (
            f"[[delimiter]] {layout.delimiter}: {rows} has as many columns as the first line",
            "check [[delimiter]], and say [[no_header]] if there is none",
        ),
    }[reason]
    raise BadInput(said, remedy=remedy)
