"""Windows are independent: what somebody does in one changes nothing of any other, to the bit.

A world is a table of a few objects around midnights of three days, in a zone and with a type of time that
are drawn too. In a second world the rows of one object in one window are others, or gone, or came late.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from library import opened
from psycopg import sql
from servers import SharedServer, cloned

from freqdp_db.dataset.building import build
from freqdp_db.dataset.registration import Registration, register
from freqdp_db.db.builds import Window, ended_window
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import find_dataset
from freqdp_db.db.releases import ReleaseRow
from freqdp_db.db.source_rows import SourceReader
from freqdp_db.methods.counts import measuring
from freqdp_db.methods.counts.contributions import Contributions
from freqdp_db.methods.counts.measuring import bounded_by, first_numbers
from freqdp_db.methods.counts.plan import Design, Plan
from freqdp_db.model.arrays import Ints
from freqdp_db.privacy.noise import SeededSource
from freqdp_db.progress import Progress
from freqdp_db.release import pipeline
from freqdp_db.release.budgets import raise_for_persons
from freqdp_db.release.pipeline import anonymize
from freqdp_db.release.request import JobRequest, Request

Row = tuple[int, int, int, int]
"""Object, minutes from the first midnight, and a place: hundredths of a degree east and north."""

# days on which the clock is changed, and others; Lord Howe changes by half an hour, Apia had no 2011-12-30
ZONES = {
    "UTC": date(2024, 5, 6),
    "Europe/Brussels": date(2024, 3, 30),
    "America/New_York": date(2024, 11, 2),
    "Australia/Lord_Howe": date(2024, 4, 6),
    "Asia/Beirut": date(2024, 3, 30),
    "Asia/Kathmandu": date(2024, 5, 6),
    "Pacific/Apia": date(2011, 12, 29),
}
TYPES = {"timestamptz": None, "timestamp": None, "date": None, "float8": "s", "bigint": "ms"}
_rows = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(-90, 3 * 1440 + 90)
        | st.sampled_from([-1, 0, 1439, 1440, 1441, 2879, 2880, 4319]),
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=40,
)


@pytest.fixture(scope="module")
def database(shared_server: SharedServer, template_db: str) -> Iterator[Database]:
    with cloned(shared_server.get(), template_db) as url, opened(url) as found:
        yield found


def _days(zone: str) -> list[date]:
    """Those around the first one that there were."""
    noon = (_moment(zone, 1440 * n + 720).astimezone(ZoneInfo(zone)) for n in range(-1, 4))
    return [moment.date() for moment in noon]


def _moment(zone: str, minutes: int) -> datetime:
    first = datetime.combine(ZONES[zone], datetime.min.time(), ZoneInfo(zone))
    return first.astimezone(UTC) + timedelta(minutes=minutes)


def _table(database: Database, name: str, kind: str, zone: str, rows: list[Row]) -> None:
    """world.<name>, with an index on time."""
    conversion = {
        "timestamptz": "%s", "timestamp": "%s AT TIME ZONE {zone}",
        "date": "(%s AT TIME ZONE {zone})::date",
        "float8": "extract(epoch FROM %s)::float8", "bigint": "(extract(epoch FROM %s) * 1000)::bigint",
    }[kind]  # fmt: skip
    with psycopg.connect(database.conninfo, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("CREATE SCHEMA IF NOT EXISTS world")
        named = sql.Identifier("world", name)
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {} CASCADE").format(named))
        connection.execute(
            sql.SQL("CREATE TABLE {} (object text, at {}, lon float8, lat float8)").format(
                named, sql.SQL(kind)
            )
        )
        with connection.cursor() as cursor:
            cursor.executemany(
                sql.SQL("INSERT INTO {} VALUES (%s, {}, %s, %s)").format(
                    named, sql.SQL(conversion).format(zone=sql.Literal(zone))
                ),
                [
                    (f"o{o}", _moment(zone, at), 4.3 + x / 100, 50.8 + y / 100)
                    for o, at, x, y in rows
                ],
            )
        connection.execute(sql.SQL("CREATE INDEX ON {} (at)").format(named))


def _register(database: Database, name: str, kind: str, zone: str) -> None:
    wanted = Registration(
        name, f"world.{name}", object="object", time="at", lon="lon", lat="lat", timezone=zone,
        budget="1000", region="4.0,50.5,5.0,51.5", time_unit=TYPES[kind], unit="person-day",
        snap="grid:500",
    )  # fmt: skip
    row, _ = register(database, wanted)
    raise_for_persons(database, row, Decimal(40), "to release each window twice")


def _fingerprints(database: Database, name: str, zone: str) -> dict[date, tuple[str, int]]:
    """Of each day: what was built, by everything in it, and how many rows were read."""
    dataset, found = find_dataset(database, name), {}
    for day in _days(zone):
        window = ended_window(database, day.isoformat(), zone)
        made = build(database, dataset, Progress(), window=window)
        found[day] = (made.fingerprint, made.rows)
    return found


def _window_of(kind: str, zone: str, minutes: int) -> date:
    """The day that a row's time lies in; of dates, of local midnight."""
    local = _moment(zone, minutes).astimezone(ZoneInfo(zone))
    return local.date()


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    zone=st.sampled_from(sorted(ZONES)),
    kind=st.sampled_from(sorted(TYPES)),
    rows=_rows,
    others=_rows,
    which=st.integers(0, 3),
    data=st.data(),
)
def test_rows_of_one_window_change_no_other(
    database: Database,
    zone: str,
    kind: str,
    rows: list[Row],
    others: list[Row],
    which: int,
    data: st.DataObject,
) -> None:
    day = data.draw(st.sampled_from(_days(zone)[1:-1]))
    kept = [r for r in rows if r[0] != which or _window_of(kind, zone, r[1]) != day]
    moved = [(which, *r[1:]) for r in others if _window_of(kind, zone, r[1]) == day]
    assume(kept + moved != rows)
    before, after = _built(database, zone, kind, rows, [*moved, *kept])
    assert _different(before, after) <= {day}
    assert sum(n for _, n in before.values()) == sum(
        _window_of(kind, zone, r[1]) in before for r in rows
    )


def _built(
    database: Database, zone: str, kind: str, rows: list[Row], others: list[Row]
) -> tuple[dict[date, tuple[str, int]], dict[date, tuple[str, int]]]:
    """What is built of the windows of a table, and of the same table with other rows: late ones among
    them, in another order."""
    with psycopg.connect(database.conninfo, autocommit=True) as connection:
        number = connection.execute(
            "SELECT coalesce(max(dataset_id), 0) FROM freqdp.dataset"
        ).fetchone()
    assert number is not None
    name = f"w{number[0]}"
    _table(database, name, kind, zone, rows)
    _register(database, name, kind, zone)
    before = _fingerprints(database, name, zone)
    _table(database, name, kind, zone, others)
    return before, _fingerprints(database, name, zone)


def _different(before: Mapping[date, object], after: Mapping[date, object]) -> set[date]:
    return {day for day in before if before[day] != after[day]}


@pytest.mark.parametrize("mutant", ["reads on", "reads before", "a day of 24 hours", "late rows"])
def test_a_window_that_depends_on_other_rows_is_found_out(
    database: Database, monkeypatch: pytest.MonkeyPatch, mutant: str
) -> None:
    """The check above can fail: windows that read half an hour of the next one or of the one before, that
    take every day for 24 hours, or whose objects are numbered as they first come in the table."""
    zone, kind = "Europe/Brussels", "timestamptz"
    day = _days(zone)[3]  # the one before has 23 hours
    rows = [(o, at, o, at % 7) for o in range(3) for at in range(0, 3 * 1440, 20)]
    # what comes late is written first
    moved = sorted(
        (
            (o, at, 9 - x, y) if o == 1 and _window_of(kind, zone, at) == day else (o, at, x, y)
            for o, at, x, y in rows
        ),
        key=lambda r: r not in rows,
        reverse=True,
    )
    assert _different(*_built(database, zone, kind, rows, moved)) == {day}
    objects, window = SourceReader.objects, Window.times.fget
    assert window is not None

    def wider(own: Window) -> tuple[datetime, datetime]:
        begin, end = window(own)
        if mutant == "reads on":
            return begin, end + timedelta(minutes=30)
        if mutant == "reads before":
            return begin - timedelta(minutes=30), end
        return begin, begin + timedelta(hours=24)

    def as_they_come(reader: SourceReader) -> list[tuple[str, int, int]]:
        query = reader._sql("SELECT {key} FROM {rows} GROUP BY 1 ORDER BY min(ctid)")
        come = [key for (key,) in reader._connection.driver.execute(query)]
        return sorted(objects(reader), key=lambda own: come.index(own[0]))

    if mutant == "late rows":
        monkeypatch.setattr(SourceReader, "objects", as_they_come)
    else:
        monkeypatch.setattr(Window, "times", property(wider))
    assert _different(*_built(database, zone, kind, rows, moved)) > {day}


def _released(database: Database, row: ReleaseRow) -> list[object]:
    """All that was drawn, logged and released."""
    with psycopg.connect(database.conninfo) as connection:
        found: list[object] = [
            connection.execute(query.encode(), [row.release_id]).fetchall()
            for query in (
                "SELECT step, part, name, chunk, whole, number FROM freqdp.step_column "
                "WHERE release_id = %s ORDER BY 1, 2, 3, 4",
                "SELECT * FROM freqdp.pf_target WHERE release_id = %s ORDER BY 1, 2, 3, 4",
                "SELECT * FROM freqdp.tf_target WHERE release_id = %s ORDER BY 1, 2, 3",
                "SELECT released_id FROM freqdp.release_key WHERE release_id = %s ORDER BY trajectory_id",
            )
        ]
        tables = connection.execute(
            "SELECT c.relname FROM freqdp_release.catalog AS k JOIN pg_class AS c "
            "ON c.relname = ANY (k.relations) AND c.relnamespace = 'freqdp_release'::regnamespace "
            "AND c.relkind IN ('r', 'p') WHERE k.name = %s ORDER BY 1",
            [row.name],
        ).fetchall()
        # as they are written: ids are drawn, too
        shown = [
            connection.execute(
                sql.SQL(
                    "SELECT md5(string_agg(r, ';' ORDER BY r)) FROM (SELECT t::text AS r FROM {} t) x"
                ).format(sql.Identifier("freqdp_release", table))
            ).fetchall()
            for (table,) in tables
        ]
        return [_without_id(part) for part in found] + shown


def _without_id(rows: object) -> list[tuple[object, ...]]:
    assert isinstance(rows, list)
    return [
        row[1:] if len(row) > 6 or (len(row) > 1 and isinstance(row[0], int)) else row
        for row in rows
    ]


@pytest.mark.parametrize("method", ["lg", "cut", "lg+swap+cut", "strict", "counts"])
def test_draws_and_rows_of_other_windows_stay_to_the_bit(database: Database, method: str) -> None:
    """With one seed for both worlds; objects that travel over midnight, and one that changes on a day."""
    day, before, after = _drawn(database, method, f"m_{method.replace('+', '_')}")
    assert _different(before, after) == {day}


@pytest.mark.parametrize("mutant", ["noise", "first round", "bounds", "trips"])
def test_a_draw_that_depends_on_other_windows_is_found_out(
    database: Database, monkeypatch: pytest.MonkeyPatch, mutant: str
) -> None:
    """The check above can fail: here something of a window follows from the rows of the whole source."""
    name = f"m_mutant_{mutant.replace(' ', '_')}"

    def of_all_rows() -> int:
        query = "SELECT string_agg(w::text, '' ORDER BY at, object) FROM {} AS w"
        with psycopg.connect(database.conninfo) as connection:
            row = connection.execute(
                sql.SQL(query).format(sql.Identifier("world", name))
            ).fetchone()
        assert row is not None
        return zlib.crc32(row[0].encode())

    def first_round(found: Contributions, design: Design) -> dict[str, Ints]:
        own = first_numbers(found, design)
        return own | {"objects": own["objects"] + of_all_rows() % 1000}

    def bounds(found: Contributions, plan: Plan) -> Contributions:
        own = bounded_by(found, plan)
        less = np.random.default_rng(of_all_rows()).integers(0, 8, len(own.visits.part))
        part = np.maximum(own.visits.part - less, 0)
        return replace(own, visits=replace(own.visits, part=part))

    def trips(found: Contributions, plan: Plan) -> Contributions:
        own = bounded_by(found, plan)
        kept = np.random.default_rng(of_all_rows()).random(len(own.trips)) < 0.5
        return replace(own, trips=own.trips.where(kept))

    if mutant == "noise":
        monkeypatch.setattr(
            pipeline, "SeededSource", lambda seed, n: SeededSource(seed + of_all_rows(), n)
        )
    elif mutant == "first round":
        monkeypatch.setattr(measuring, "first_numbers", first_round)
    else:
        monkeypatch.setattr(measuring, "bounded_by", bounds if mutant == "bounds" else trips)
    day, before, after = _drawn(database, "lg" if mutant == "noise" else "counts", name)
    assert _different(before, after) > {day}


def _place(one: int, at: int) -> tuple[int, int]:
    """An hour on the way, an hour at rest; some are on the way at midnight."""
    since = at + 20 * one
    steps = since // 120 * 4 + min(since % 120 // 15, 4)
    return (one + steps) % 10, (3 * one + steps // 2) % 10


def _drawn(
    database: Database, method: str, name: str
) -> tuple[date, dict[date, list[object]], dict[date, list[object]]]:
    """All that is released of each window, before and after one object changes on a day; and that day."""
    zone, kind = "Europe/Brussels", "timestamptz"
    steady = [(o, at, *_place(o, at)) for o in range(12) for at in range(-60, 3 * 1440 + 60, 15)]
    day = _days(zone)[2]
    moved = [
        r
        if r[0] != 5 or _window_of(kind, zone, r[1]) != day
        else (5, r[1], 9 - r[2], (r[3] + 4) % 10)
        for r in steady
    ]
    options = {
        "strict": {"size": "30", "every": "10min"},
        # with little noise: bounds follow what objects have
        "counts": {"zones": "grid:20km", "epsilon": "20"},
    }.get(method, {})
    request = Request.parse(method, seed=7, **options)
    found: list[dict[date, list[object]]] = []
    for world, rows in enumerate((steady, moved)):
        _table(database, name, kind, zone, rows)
        if world == 0:
            _register(database, name, kind, zone)
        dataset, made = find_dataset(database, name), {}
        for on in _days(zone):
            window = ended_window(database, on.isoformat(), zone)
            built = build(database, dataset, Progress(), window=window)
            asked = JobRequest(request, f"{name}_{world}_{on:%d%m}", new_draw=True)
            done = anonymize(database, dataset, asked, Progress(), build_id=built.build_id)
            made[on] = _released(database, done.release)
        found.append(made)
    assert all(len(made[on]) for made in found for on in made)
    return day, found[0], found[1]
