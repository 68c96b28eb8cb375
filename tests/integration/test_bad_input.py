"""What people get wrong: refused by name with a way out, nothing written, no value of a row shown."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from servers import SharedServer, cloned
from world import Answer, city_template, freqdp, query, value, written

from freqdp_db.db.connection import translate, unreachable
from freqdp_db.errors import ServerRefused

ROOT = Path(__file__).parents[2]

# Keys and coordinates of the rows below: no refusal may show one.
SECRETS = ("Zaphod", "116.39", "39.90", "116391", "39901")
GOOD = """
CREATE SCHEMA src;
CREATE TABLE src.good AS
SELECT 'Zaphod-' || o AS who, timestamptz '2024-05-01' + make_interval(secs => 60 * i + o) AS at,
    ST_SetSRID(ST_MakePoint(lon, lat), 4326)::geometry(Point, 4326) AS geom,
    ST_SetSRID(ST_MakePoint(lon, lat), 4326)::geometry AS place,
    ST_SetSRID(ST_MakeLine(ST_MakePoint(lon, lat), ST_MakePoint(lon, lat + 1)), 4326)
        ::geometry(LineString, 4326) AS line,
    lon, lat, lon::text AS lon_text, 'Zaphod-' || o AS note
FROM generate_series(1, 4) o, generate_series(1, 30) i,
    LATERAL (SELECT 116.391 + 0.0001 * i AS lon, 39.901 + 0.0001 * o AS lat) p;
CREATE TABLE src.empty (LIKE src.good);
CREATE TABLE src.no_srid AS SELECT who, at, ST_SetSRID(place, 0) AS geom FROM src.good;
CREATE TABLE src.srids AS SELECT who, at, place AS geom FROM src.good;
INSERT INTO src.srids SELECT who, at + interval '1 h', ST_Transform(place, 3857) FROM src.good;
CREATE TABLE src.kinds AS SELECT who, at, place AS geom FROM src.good;
INSERT INTO src.kinds SELECT who, at + interval '1 h', line FROM src.good WHERE who LIKE '%-1';
CREATE TABLE src.islands AS SELECT who, at, 0.0::float8 AS x, 0.0::float8 AS y FROM src.good;
CREATE TABLE src.outside AS SELECT who, at, lon + 400 AS x, lat::float8 AS y FROM src.good;
CREATE TABLE src.swapped AS SELECT who, at, lat AS x, lon AS y FROM src.good;
CREATE TABLE src.nans AS SELECT who, at, 'NaN'::float8 AS x, 'Infinity'::float8 AS y FROM src.good;
CREATE TABLE src.nulls AS SELECT who, at, NULL::float8 AS x, lat AS y FROM src.good;
CREATE TABLE src.early AS SELECT who, at - interval '900 years' AS at, lon AS x, lat AS y FROM src.good;
CREATE TABLE src.moving AS SELECT * FROM src.good;
CREATE VIEW src.divides AS SELECT who, at, lon / (lat - lat) AS x, lat AS y FROM src.good;
CREATE VIEW src.casts AS SELECT who, at, note::float8 AS x, lat AS y FROM src.good;
CREATE FUNCTION src.tell(who text, lon float8) RETURNS float8 LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'bad row % at %', who, lon; END $$;
CREATE VIEW src.tells AS SELECT who, at, src.tell(who, lon) AS x, lat AS y FROM src.good;
CREATE VIEW src.transforms AS SELECT who, at,
    ST_Transform(ST_SetSRID(ST_MakePoint(lon * 1e9, lat), 4326), 2154) AS geom FROM src.good;
CREATE TABLE src.two_points AS SELECT geom, place FROM src.good;
"""


@pytest.fixture(scope="module")
def sources(shared_server: SharedServer) -> Iterator[str]:
    """A database with all these tables and some datasets; nothing in this module changes it."""
    with cloned(shared_server.get(), shared_server.template(schema=True)) as url:
        query(url, GOOD)
        built = ("--from", "src.good", "--object", "who", "--time", "at", "--geom", "geom")
        freqdp(url, "dataset", "add", "built", *built, "--budget", "2.5").succeeded()
        freqdp(url, "dataset", "build", "built").succeeded()
        freqdp(url, "anonymize", "built", "--as", "taken", "--method", "pure-g").succeeded()
        freqdp(url, "dataset", "add", "unbuilt", *built).succeeded()
        yield url


@pytest.fixture
def refuses(sources: str) -> Callable[..., dict[str, Any]]:
    """Run a command that must be refused with these words and leave everything as it was."""

    def run(arguments: tuple[str, ...], *words: str) -> dict[str, Any]:
        before = written(sources)
        answer = freqdp(sources, *arguments)
        document = answer.refused(*words)
        _shows_no_row(answer)
        assert written(sources) == before
        return document

    return run


def _shows_no_row(answer: Answer) -> None:
    given = " ".join(answer.arguments)
    for secret in SECRETS:
        assert secret in given or secret not in answer.out + answer.err, answer


Refuses = Callable[..., dict[str, Any]]


def _add(**changed: str | None) -> tuple[str, ...]:
    """`dataset add` as it would work, but for what is changed; None leaves an option out."""
    options: dict[str, str | None] = {
        "name": "new", "from": "src.good", "object": "who", "time": "at", "geom": "geom", **changed
    }  # fmt: skip
    name = options.pop("name")
    assert name is not None
    given = [(f"--{k}", v) for k, v in options.items() if v is not None]
    return ("dataset", "add", *(word for pair in given for word in pair), "--", name)


def test_the_words_around_the_mistakes_are_right(sources: str) -> None:
    """Otherwise the tests below would pass for another reason."""
    freqdp(sources, *_add()[:-2], "new").succeeded()
    freqdp(sources, "dataset", "drop", "new").succeeded()


LONG = "x" * 64
LONG_UNICODE = "ü" * 32


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"from": "src.nowhere"}, ("--from", "'nowhere'", "'src'")),
        ({"from": "nowhere.good"}, ("--from", "'good'", "'nowhere'")),
        ({"from": "good"}, ("--from", "'good'", "'public'")),
        ({"from": "SRC.Good x"}, ("--from", "'SRC.Good x'")),
        ({"from": '"SRC"."Good"'}, ("--from", "'Good'", "'SRC'")),
        ({"from": ""}, ("--from", "''")),
        ({"from": "."}, ("--from", "'.'")),
        ({"from": "src."}, ("--from", "'src.'")),
        ({"from": '"src.good'}, ("--from", "'\"src.good'")),
        ({"from": '"".good'}, ("--from",)),
        ({"from": "db.src.good"}, ("--from", "'db.src.good'")),
        ({"from": "src.good; DROP TABLE src.good"}, ("--from", "DROP TABLE")),
        ({"from": f"src.{LONG}"}, ("--from", LONG, "63 bytes")),
        ({"from": f'src."{LONG_UNICODE}"'}, ("--from", LONG_UNICODE, "63 bytes")),
        ({"object": "nobody"}, ("--object", "'nobody'", "src.good")),
        ({"object": ""}, ("--object", "''")),
        ({"object": "who; --"}, ("--object", "'who; --'")),
        ({"time": "when"}, ("--time", "'when'")),
        ({"time": "note"}, ("--time", "'note'", "text")),
        ({"time": "geom"}, ("--time", "'geom'", "geometry(Point,4326)")),
        ({"geom": "where"}, ("--geom", "'where'")),
        ({"geom": "note"}, ("--geom", "'note'", "text")),
        ({"geom": "lon"}, ("--geom", "'lon'")),
        ({"geom": "line"}, ("--geom", "'line'", "geometry(LineString,4326)")),
        ({"geom": None}, ("--geom", "--lon")),
        ({"geom": None, "lon": "lon"}, ("--lon", "--lat")),
        ({"geom": None, "lat": "lat"}, ("--lon", "--lat")),
        ({"lon": "lon", "lat": "lat"}, ("--geom", "--lon")),
        ({"geom": None, "lon": "lon_text", "lat": "lat"}, ("--lon", "'lon_text'", "text")),
        ({"geom": None, "lon": "lon", "lat": "at"}, ("--lat", "'at'", "timestamp with time zone")),
        ({"geom": None, "lon": "lon", "lat": "nothing"}, ("--lat", "'nothing'")),
        ({"from": "src.empty", "geom": "place"}, ("src.empty", "no rows")),
        ({"geom": "place", "where": "false"}, ("src.good", "no rows")),
        ({"from": "src.no_srid"}, ("--geom", "'geom'", "no SRID")),
        ({"srid": "999999"}, ("--srid", "999999")),
        ({"srid": "4326"}, ("--srid", "4326", "projected")),
        ({"geom": None, "x": "lon", "y": "lat", "srid": "4326"}, ("--srid", "4326", "degrees")),
        ({"srid": "2263"}, ("--srid", "2263", "metres")),
        ({"srid": "3857"}, ("--srid", "3857", "metres")),
        ({"srid": "0"}, ("--srid", "0")),
        ({"srid": "-32650"}, ("--srid", "-32650")),
        ({"srid": "99999999999999999999"}, ("--srid", "99999999999999999999")),
        ({"srid": "metres"}, ("--srid", "'metres'")),
        ({"timezone": "Mars/Olympus"}, ("--timezone", "'Mars/Olympus'")),
        ({"timezone": ""}, ("--timezone", "''")),
        ({"timezone": "UTC'; DROP TABLE src.good; --"}, ("--timezone", "DROP TABLE")),
        *(
            ({"snap": text}, ("--snap", f"{text!r}"))
            for text in (
                "",
                "grid",
                "grid:",
                "grid:0",
                "grid:-100",
                "grid:nan",
                "grid:inf",
                "grid:1e9",
                "grid:wide",
                "hex:100",
                "anchors",
                "anchors:",
                "exact:1",
            )
        ),
        ({"snap": "anchors:src.nowhere"}, ("--snap anchors:", "'nowhere'")),
        ({"snap": "anchors:a.b.c"}, ("--snap anchors:", "'a.b.c'")),
        *(
            ({"budget": text}, ("--budget", text))
            for text in (
                "0",
                "-1",
                "nan",
                "inf",
                "-inf",
                "lots",
                "",
                "1e30",
                "0.0000000001",
                "1e-400",
                "1e99999999999999999999",
            )
        ),
        *(
            ({"where": text}, ("--where", text.strip()[:20]))
            for text in (
                "",
                "   ",
                "who =",
                "who = 'x",
                "nosuch = 1",
                "who = 5",
                "count(*) > 1",
                "true; DROP TABLE src.good",
                "true); DROP TABLE src.good; --",
                "$1 = 1",
                "%s",
                "who /* open",
                "who; --",
                "who",
                "(SELECT 1; SELECT 2)",
            )
        ),
        ({"name": ""}, ("name", "''")),
        ({"name": "  "}, ("name", "'  '")),
        ({"name": LONG}, ("name", LONG)),
        ({"name": LONG_UNICODE}, ("name", LONG_UNICODE)),
        ({"name": "built"}, ("'built'",)),
    ],
    ids=str,
)
def test_add(refuses: Refuses, changed: dict[str, str | None], words: tuple[str, ...]) -> None:
    refuses(_add(**changed), *words)


@contextmanager
def _registered(url: str, **changed: str | None) -> Iterator[str]:
    """A dataset that was added all right; its rows are the trouble."""
    name = f"d_{uuid.uuid4().hex[:8]}"
    freqdp(url, *_add(name=name, **changed)).succeeded()
    try:
        yield name
    finally:
        freqdp(url, "dataset", "drop", name).succeeded()


XY: dict[str, str | None] = {"geom": None, "lon": "x", "lat": "y"}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"from": "src.empty"}, ("src.empty", "no rows")),
        ({"where": "who = 'Nobody'"}, ("src.good", "no rows")),
        (
            {"from": "src.kinds", "where": "GeometryType(geom) <> 'POINT'"},
            ("no row can be used", "30 geometry that is not a point"),
        ),
        ({"from": "src.islands", **XY}, ("no row can be used", "120 position 0, 0")),
        ({"from": "src.outside", **XY}, ("no row can be used", "120 position out of range")),
        ({"from": "src.swapped", **XY}, ("no row can be used", "120 position out of range")),
        ({"from": "src.nans", **XY}, ("no row can be used", "120 position out of range")),
        ({"from": "src.nulls", **XY}, ("no row can be used", "120 no position")),
        ({"from": "src.early", **XY}, ("no row can be used", "120 time out of range")),
        ({"from": "src.divides", **XY}, ("22012",)),
        ({"where": "1 / (position('x' IN who) - position('x' IN who)) = 1"}, ("22012",)),
        ({"from": "src.casts", **XY}, ("22P02",)),
        ({"from": "src.tells", **XY}, ("P0001",)),
        ({"snap": "anchors:src.empty"}, ("anchors:src.empty", "3 geometry columns")),
        ({"snap": "anchors:src.two_points"}, ("anchors:src.two_points", "2 geometry columns")),
        ({"snap": "anchors:src.kinds"}, ("anchors:src.kinds", "points of one SRID")),
        ({"snap": "anchors:src.srids"}, ("anchors:src.srids", "points of one SRID")),
        ({"snap": "anchors:src.no_srid"}, ("anchors:src.no_srid", "points of one SRID")),
        ({"snap": "anchors:src.islands"}, ("anchors:src.islands", "0 geometry columns")),
    ],
    ids=str,
)
def test_build(
    sources: str, refuses: Refuses, changed: dict[str, str | None], words: tuple[str, ...]
) -> None:
    with _registered(sources, **changed) as name:
        refuses(("dataset", "build", name), *words)


def test_a_view_that_fails_in_postgis(sources: str, refuses: Refuses) -> None:
    """PostGIS names the coordinates that it could not transform; we do not."""
    before = written(sources)
    answer = freqdp(sources, *_add(**{"from": "src.transforms"}))
    assert answer.code == 1
    answer.refused("XX000")
    _shows_no_row(answer)
    assert written(sources) == before


@pytest.mark.parametrize(
    ("change", "undo", "words"),
    [
        ("ALTER TABLE src.moving RENAME TO gone", "ALTER TABLE src.gone RENAME TO moving",
         ("'moving'", "'src'")),
        ("ALTER TABLE src.moving RENAME who TO gone", "ALTER TABLE src.moving RENAME gone TO who",
         ("--object", "'who'")),
        ("ALTER TABLE src.moving ALTER at TYPE text", "ALTER TABLE src.moving ALTER at TYPE "
         "timestamptz USING at::timestamptz", ("--time", "'at'", "text")),
        ("ALTER TABLE src.moving ALTER geom TYPE geometry(Point, 3857) USING "
         "ST_Transform(geom, 3857)", "ALTER TABLE src.moving ALTER geom TYPE "
         "geometry(Point, 4326) USING ST_Transform(geom, 4326)", ("SRID", "4326")),
    ],
    ids=["table", "column", "type", "srid"],
)  # fmt: skip
def test_a_source_that_changed(
    sources: str, refuses: Refuses, change: str, undo: str, words: tuple[str, ...]
) -> None:
    with _registered(sources, **{"from": "src.moving"}) as name:
        query(sources, change)
        try:
            refuses(("dataset", "build", name), *words)
        finally:
            query(sources, undo)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *(
            (("--epsilon", text), ("--epsilon", text))
            for text in ("0", "0.0", "-1", "-0", "nan", "NaN", "inf", "-inf", "Infinity", "abc", "",
                         "1e99", "1001", "1e-10", "1,5", "0x10", "1e-999999999", "1/2")
        ),
        (("--epsilon-global", "1"), ("--epsilon-local",)),
        (("--epsilon", "1", "--epsilon-local", "1"), ("--epsilon",)),
        (("--epsilon-global", "0", "--epsilon-local", "1"), ("--epsilon-global", "0")),
        (("--method", "pure-l", "--epsilon-global", "1"), ("--epsilon-global", "pure-l")),
        (("--method", "sc", "--epsilon", "1"), ("sc", "no noise")),
        (("--method", "rsc", "--epsilon-local", "1"), ("--epsilon-local", "rsc")),
        (("--radius", "500"), ("--radius", "lg")),
        *((("--method", "rsc", "--radius", t), ("--radius", t)) for t in ("0", "-1", "abc", "1e9")),
        *((("--signature", t), ("--signature", t)) for t in ("0", "-1", "abc", "1.5", "10001", "")),
        *((("--spread", t), ("--spread", t)) for t in ("-1", "0", "abc", "nan", "inf", "1e9", "")),
        (("--spread", "5km"), ("--spread", "5k")),
        *(
            (("--time-step", text), ("--time-step", text))
            for text in ("abc", "0", "0s", "-5s", "60x", "5 minutes", "1e3s", "nan", "", "1.2.3s",
                         "0.0000001s", "400d")
        ),
        *((("--method", t), ("--method", repr(t))) for t in ("xyz", "LG", "", "lg; DROP TABLE x")),
    ],
    ids=str,
)  # fmt: skip
def test_requests(refuses: Refuses, options: tuple[str, ...], words: tuple[str, ...]) -> None:
    refuses(("anonymize", "built", "--method", "lg", *options), *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("anonymize", "nothing", "--method", "lg"), ("'nothing'",)),
        (("plan", "nothing", "--method", "lg"), ("'nothing'",)),
        (("plan", "built", "--method", "lg", "--epsilon", "0"), ("--epsilon", "0")),
        (("plan", "built", "--method", "lg", "--epsilon", "1e-9"),
         ("--epsilon", "0.0000000005", "samples")),
        (("anonymize", "built", "--method", "lg", "--epsilon", "1e-9"),
         ("--epsilon", "0.0000000005", "samples")),
        (("plan", "built", "--method", "lg", "--signature", "0"), ("--signature", "0")),
        (("plan", "built", "--method", "lg", "--spread", "-1"), ("--spread", "-1")),
        (("plan", "built", "--method", "none"), ("--method", "'none'")),
        (("anonymize", "unbuilt", "--method", "lg"), ("'unbuilt'", "not been built")),
        (("plan", "unbuilt", "--method", "lg"), ("'unbuilt'", "not been built")),
        (("anonymize", "built", "--method", "lg", "--seed", "-1"), ("--seed", "-1")),
        (("anonymize", "built", "--method", "lg", "--seed", "abc"), ("--seed", "abc")),
        (("anonymize", "built", "--method", "lg", "--seed", str(2**63)), ("--seed", str(2**63))),
        (("anonymize", "built", "--method", "lg", "--as", "taken"), ("'taken'",)),
        (("anonymize", "built", "--method", "lg", "--as", "taken_pkey"), ("'taken_pkey'",)),
        (("anonymize", "built", "--method", "lg", "--as", "catalog"), ("--as", "'catalog'")),
        (("anonymize", "built", "--method", "lg", "--as", "my_line"), ("--as", "'my_line'")),
        (("anonymize", "built", "--method", "lg", "--as", "my_current"), ("--as", "'my_current'")),
        (("anonymize", "built", "--method", "lg", "--as", "my_trip"), ("--as", "'my_trip'")),
        (("anonymize", "built", "--method", "lg", "--as", ""), ("--as", "''")),
        *(
            (("anonymize", "built", "--method", "lg", "--as", name), ("--as", repr(name), "no file"))
            for name in ("../evil", "a/b", "a\\b", ".hidden", "a\nb", "\x1b[31m")
        ),
        (("anonymize", "built", "--method", "lg", "--as", "x" * 56), ("--as", "x" * 56)),
        (("anonymize", "built", "--method", "lg", "--as", "ü" * 28), ("--as", "ü" * 28)),
        (("anonymize", "built", "--method", "lg", "--epsilon", "1.75"),
         ("requested 1.75", "remaining 1.5")),
        (("dataset", "build", "nothing"), ("'nothing'",)),
        (("dataset", "show", "nothing"), ("'nothing'",)),
        (("dataset", "drop", "nothing'; DROP TABLE x; --"), ("DROP TABLE x",)),
        *((("release", c, "nothing"), ("'nothing'",)) for c in ("show", "verify", "resume",
                                                               "withdraw")),
        (("release", "resume", "taken"), ("'taken'", "published")),
        (("budget", "nothing"), ("'nothing'",)),
        (("budget", "built", "--raise", "1"), ("--raise", "--reason")),
        (("budget", "built", "--reason", "because"), ("--raise", "--reason")),
        (("budget", "built", "--raise", "1", "--reason", " "), ("--reason",)),
        *(
            (("budget", "built", "--raise", text, "--reason", "because"), ("--raise", text))
            for text in ("0", "-1", "nan", "inf", "lots", "1e30", "")
        ),
        (("dataset", "list", "--schema", "public"), ("--schema", "'public'")),
        (("dataset", "list", "--schema", "pg_x"), ("--schema", "'pg_x'")),
        (("dataset", "list", "--schema", "y" * 55), ("--schema", "y" * 55)),
        (("dataset", "list", "--schema", "same", "--release-schema", "same"), ("'same'",)),
        (("dataset", "list", "--schema", "elsewhere"), ("'elsewhere'",)),
    ],
    ids=str,
)  # fmt: skip
def test_commands(refuses: Refuses, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    refuses(arguments, *words)


@pytest.mark.parametrize(
    "arguments",
    [
        ("dataset", "frobnicate"),
        ("frobnicate",),
        ("dataset", "build"),
        ("dataset", "build", "one", "two"),
        ("dataset", "build", "built", "--frobnicate"),
        ("dataset", "add", "x"),
        ("anonymize", "built", "--method", "lg", "--as"),
        ("anonymize", "built", "--method", "lg", "--seed"),
        ("release", "find"),
    ],
    ids=str,
)
def test_usage(sources: str, arguments: tuple[str, ...]) -> None:
    before = written(sources)
    answer = freqdp(sources, *arguments)
    assert answer.code == 2
    assert set(answer.document) == {"error", "message", "remedy"}
    assert "Traceback" not in answer.out + answer.err
    assert written(sources) == before


def test_bytes_that_are_no_text(sources: str) -> None:
    arguments = [a.encode() for a in _add(name="CAF-")]
    done = subprocess.run(
        [sys.executable, "-m", "freqdp_db", *(a.replace(b"CAF-", b"caf\xe9") for a in arguments)],
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": sources},
        check=False,
    )
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"UTF-8" in done.stderr


PASSWORD = "Secr3t-pw"


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://u:{PASSWORD}@127.0.0.1:1/db",
        f"postgresql+psycopg://u:{PASSWORD}@127.0.0.1:1/db",
        f"postgresql://u:{PASSWORD}@no-such-host.invalid/db",
        f"host=/no/such/place password={PASSWORD}",
        f"host=127.0.0.1 port=1 password='{PASSWORD}'",
        f"host=127.0.0.1 port=70000 password={PASSWORD}",
        f"host=127.0.0.1 frobnicate=yes password={PASSWORD}",
        f"password={PASSWORD} and more",
        f"{PASSWORD}",
        f"mysql://u:{PASSWORD}@127.0.0.1/db",
        f"postgresql://u:{PASSWORD}@127.0.0.1:port/db",
        f"postgresql://u:x@{PASSWORD}@127.0.0.1:1/db",
        f"postgresql://u:x/{PASSWORD}@127.0.0.1:1/db",
        f"postgresql://u:{PASSWORD}/x@127.0.0.1:1/db",
        f"postgresql://u:{PASSWORD}?x@127.0.0.1:1/db",
        f"postgresql://u:x:{PASSWORD}@127.0.0.1:1/db",
        f"postgresql://u:{PASSWORD}#x@127.0.0.1:1/db",
        f"postgresql://u:{PASSWORD}%zz@127.0.0.1:1/db",
        f"postgresql://u:{PASSWORD}@[::1/db",
        f"postgresql://u:{PASSWORD}@127.0.0.1:1/db?frobnicate=1",
    ],
)
def test_connections_that_cannot_be(dsn: str) -> None:
    answer = freqdp(dsn, "dataset", "list")
    answer.refused()
    assert PASSWORD not in answer.out + answer.err
    assert "cr3t" not in answer.out + answer.err


def test_the_server_is_quoted_when_it_lets_nobody_in(database_url: str) -> None:
    absent = freqdp(make_conninfo(database_url, dbname="absent"), "dataset", "list").refused(
        "the server refused the connection", 'database "absent" does not exist'
    )
    assert "createdb absent" in absent["remedy"] and "server runs" not in absent["remedy"]


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ('password authentication failed for user "ann"', "user and password"),
        ('Peer authentication failed for user "ann"', "run the command as ann"),
        ('role "ann" does not exist', "CREATE ROLE ann"),
        ('no pg_hba.conf entry for host "1.2.3.4", user "ann"', "pg_hba.conf"),
        ("sorry, too many clients already", "max_connections"),
        ("the database system is starting up", "try again"),
        ("etwas anderes", "check --dsn"),
    ],
)
def test_remedies_for_who_is_not_let_in(said: str, remedy: str) -> None:
    for text in (
        f'connection failed: connection to server at "::1", port 5432 failed: FATAL:  {said}',
        'connection failed: connection to server at "::1", port 5432 failed: Connection refused\n'
        "\tIs the server running on that host and accepting TCP/IP connections?\n"
        f'connection to server at "127.0.0.1", port 5432 failed: FATAL:  {said}\n',
    ):
        told = unreachable(text).as_options()
        assert told["message"] == f"the server refused the connection: {said}"
        assert remedy in str(told["remedy"])
    told = unreachable(
        'connection to server at "::1", port 5432 failed: fe_sendauth: no password supplied'
    ).as_options()
    assert told["message"] == "the server refused the connection: fe_sendauth: no password supplied"


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql:///db?host=/no/such/place&user=a@b",
        "postgresql://one.invalid:5432,two.invalid:5433/db",
        "postgresql://user@[::1]:1/db",
        "postgresql://user:p%40ss@127.0.0.1:1/db?connect_timeout=1",
        "postgresql://127.0.0.1:1",
        "host=/no/such/place dbname='a b'",
    ],
)
def test_connection_strings_that_are_right(dsn: str) -> None:
    """They reach libpq, which does not reach a server."""
    assert (
        freqdp(dsn, "dataset", "list").refused("cannot be reached")["error"] == "ConnectionFailed"
    )


def test_wrong_database_and_wrong_user(sources: str) -> None:
    changed = psycopg.conninfo.make_conninfo(sources, dbname="no_such_database")
    freqdp(changed, "dataset", "list").refused("no_such_database")
    changed = psycopg.conninfo.make_conninfo(sources, user="nobody_here", password=PASSWORD)
    answer = freqdp(changed, "dataset", "list")
    answer.refused("nobody_here")
    assert PASSWORD not in answer.out + answer.err


def test_wrong_password() -> None:
    """A server that asks for the password and does not take it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=_deny, args=(listening,), daemon=True)
        thread.start()
        port = listening.getsockname()[1]
        answer = freqdp(
            f"postgresql://u:{PASSWORD}@127.0.0.1:{port}/db?sslmode=disable", "dataset", "list"
        )
        thread.join(10)
    answer.refused("password authentication failed")
    assert PASSWORD not in answer.out + answer.err


def _deny(listening: socket.socket) -> None:
    """As much of PostgreSQL's protocol as it takes to refuse a password."""
    connection, _ = listening.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(b"R" + (8).to_bytes(4) + (3).to_bytes(4))
        connection.recv(4096)
        fields = b'SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed for user "u"\0\0'
        connection.sendall(b"E" + (len(fields) + 4).to_bytes(4) + fields)


@contextmanager
def _role(url: str, *statements: str) -> Iterator[str]:
    """The URL of the same database for a role of its own without any rights but these."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as connection:

        def execute(text: str) -> None:
            connection.execute(sql.SQL(text).format(role=sql.Identifier(name)))

        execute("CREATE ROLE {role} LOGIN")
        try:
            for statement in statements:
                execute(statement)
            # logged in by our own means and then no more than that role
            yield f"{url}&options={quote(f'-c role={name}')}"
        finally:
            execute("DROP OWNED BY {role} CASCADE")
            execute("DROP ROLE {role}")


def test_no_permission_on_the_source(sources: str) -> None:
    before = written(sources)
    with _role(sources, "GRANT freqdp_admin TO {role}") as url:
        answer = freqdp(url, *_add())
        refusal = answer.refused("src.good")
        assert refusal["error"] == "PermissionMissing"
        assert 'GRANT USAGE ON SCHEMA "src"' in refusal["remedy"]
        assert 'GRANT SELECT ON "src"."good"' in refusal["remedy"]
        refusal = freqdp(url, "dataset", "build", "unbuilt").refused("src.good")
        assert refusal["error"] == "PermissionMissing"
    assert written(sources) == before


def test_no_permission_on_our_schema(sources: str) -> None:
    before = written(sources)
    with _role(sources) as url:
        for command in (("dataset", "list"), ("anonymize", "built", "--method", "lg"), _add()):
            assert freqdp(url, *command).refused("freqdp")["remedy"]
    with _role(sources, "GRANT freqdp_analyst TO {role}") as url:
        for command in (("dataset", "list"), ("anonymize", "built", "--method", "lg")):
            assert freqdp(url, *command).refused("freqdp")["remedy"]
        # an analyst sees what is published, and nothing else
        assert [r["name"] for r in freqdp(url, "release", "list").succeeded()] == ["taken"]
    assert written(sources) == before


def test_no_permission_to_create_schemas(empty_database_url: str) -> None:
    before = written(empty_database_url)
    with _role(empty_database_url) as url:
        refusal = freqdp(url, "init").refused("'freqdp'")
        assert refusal["error"] == "PermissionMissing"
        assert "GRANT CREATE ON DATABASE" in refusal["remedy"]
        assert "freqdp init --sql" in refusal["remedy"]
        assert freqdp(url, "dataset", "list").refused("'freqdp'")["error"] == "SchemaMissing"
    assert written(empty_database_url) == before


def test_no_postgis(shared_server: SharedServer) -> None:
    with cloned(shared_server.get(), "template0") as url:
        refusal = freqdp(url, "init").refused("PostGIS")
        assert "CREATE EXTENSION postgis" in refusal["remedy"]


ODD = [
    'He said "hi"',
    "with space and, comma",
    "naïve Ünïcode 北京 🚕",
    "x'; DROP SCHEMA freqdp CASCADE; --",
    "%s %(name)s {} :bound $1 \\n",
    "select",
    "CamelCase",
    "0 starts with a digit",
    "a.b",
]


@pytest.mark.parametrize("odd", ODD)
def test_odd_names_work_everywhere(database_url: str, odd: str) -> None:
    """Schema, relation and columns may be called anything; dataset and release, as a file can be."""
    quoted = '"' + odd.replace('"', '""') + '"'
    names = {key: sql.Identifier(f"{odd} {key}"[:60]) for key in ("who", "at", "geom")}
    statement = sql.SQL(
        "CREATE SCHEMA {s}; CREATE TABLE {s}.{s} AS SELECT 'object ' || o AS {who}, "
        "timestamptz '2024-05-01' + make_interval(secs => 60 * i + o) AS {at}, ST_SetSRID("
        "ST_MakePoint(116.39 + 0.001 * (i * o % 30), 39.9 + 0.001 * (i % 20)), 4326) AS {geom} "
        "FROM generate_series(1, 4) o, generate_series(1, 30) i"
    ).format(s=sql.Identifier(odd), **names)
    with psycopg.connect(database_url, options="-c search_path=public") as connection:
        connection.execute(statement)
    called = odd.replace("\\", "")
    columns = [f"{odd} {key}"[:60] for key in ("who", "at", "geom")]
    freqdp(
        database_url, "dataset", "add", "--from", f"{quoted}.{quoted}", "--object", columns[0],
        "--time", columns[1], "--geom", columns[2], "--", called,
    ).succeeded()  # fmt: skip
    freqdp(database_url, "dataset", "build", "--", called).succeeded()
    assert freqdp(database_url, "plan", called, "--method", "lg").succeeded()["dataset"] == called
    release = freqdp(
        database_url, "anonymize", called, "--method", "lg", "--signature", "3", "--as", called
    ).succeeded()
    assert (release["name"], release["state"]) == (called, "published")
    assert freqdp(database_url, "release", "verify", called).succeeded()["verified"] is True
    assert freqdp(database_url, "release", "show", called).succeeded()["name"] == called
    with psycopg.connect(database_url) as connection:
        for relation in (called, f"{called}_line"):
            found = connection.execute(
                sql.SQL("SELECT count(*) FROM {}").format(
                    sql.Identifier("freqdp_release", relation)
                )
            ).fetchone()
            assert found is not None and found[0] > 0
    # the default name follows the dataset's, and what is said to a person holds it too
    assert freqdp(database_url, "anonymize", called, "--method", "pure-g").succeeded()["name"] == (
        f"{called}_1"
    )
    assert freqdp(database_url, "budget", called).succeeded()["source_schema"] == odd
    freqdp(database_url, "release", "withdraw", called).succeeded()
    freqdp(database_url, "dataset", "drop", called).succeeded()


def test_longest_names(database_url: str) -> None:
    """55 bytes for a release, 63 for the rest; index names that would be longer are cut off."""
    relation, release = "r" * 63, "é" * 27 + "x"
    query(database_url, GOOD.partition("CREATE TABLE src.empty")[0])
    query(database_url, f"ALTER TABLE src.good RENAME TO {relation}")
    add = _add(**{"name": "d" * 63, "from": f"src.{relation}"})
    freqdp(database_url, *add).succeeded()
    freqdp(database_url, "dataset", "build", "d" * 63).succeeded()
    refusal = freqdp(database_url, "anonymize", "d" * 63, "--method", "lg").refused("d" * 63)
    assert "--as" in refusal["remedy"]
    for name in (release, "y" * 55):
        freqdp(
            database_url,
            "anonymize",
            "d" * 63,
            "--method",
            "lg",
            "--as",
            name,
            "--signature",
            "2",
            "--new-draw",
        ).succeeded()
        freqdp(database_url, "release", "verify", name).succeeded()


def test_index_names_are_taken_too(database_url: str) -> None:
    """A release may not be called as another one's index is, nor the other way round."""
    query(database_url, GOOD.partition("CREATE TABLE src.empty")[0])
    freqdp(database_url, *_add(name="d")).succeeded()
    freqdp(database_url, "dataset", "build", "d").succeeded()
    freqdp(database_url, "anonymize", "d", "--as", "x_geom_idx", "--method", "pure-g").succeeded()
    spent = value(database_url, "SELECT spent FROM freqdp.budget")
    refusal = freqdp(database_url, "anonymize", "d", "--method", "lg", "--as", "x").refused(
        "x_geom_idx"
    )
    assert refusal["error"] == "AlreadyExists"
    assert value(database_url, "SELECT spent FROM freqdp.budget") == spent


def test_disk_full_is_told(database_url: str) -> None:
    """The server's own error, by its SQLSTATE."""
    with psycopg.connect(database_url) as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute("COPY (SELECT repeat('x', 100000)) TO '/dev/full'")
    assert caught.value.sqlstate == "53100"
    told = translate(caught.value)
    assert isinstance(told, ServerRefused)
    assert "disk" in told.message
    assert told.remedy is not None and "free space" in told.remedy


@pytest.fixture
def tiny_disk(shared_server: SharedServer, pytestconfig: pytest.Config) -> Iterator[str]:
    """The city in a database whose new tables go to a disk of half a megabyte."""
    server = shared_server.get()
    if server.data_dir is None or os.geteuid() != 0:
        pytest.skip("needs root and a server on this machine, to mount a small disk for it")
    place = Path(server.data_dir).parent / f"tiny-{uuid.uuid4().hex[:8]}"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)], check=False
    )
    if mounted.returncode != 0:
        place.rmdir()
        pytest.skip("mounting is not allowed here")
    owner = (Path(server.data_dir) / "cluster").stat()
    os.chown(place, owner.st_uid, owner.st_gid)
    place.chmod(0o700)
    name = sql.Identifier(place.name)
    try:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(
                sql.SQL("CREATE TABLESPACE {} LOCATION {}").format(name, sql.Literal(str(place)))
            )
            with cloned(server, city_template(shared_server, pytestconfig)) as url:
                database = sql.Identifier(str(psycopg.conninfo.conninfo_to_dict(url)["dbname"]))
                connection.execute(
                    sql.SQL("ALTER DATABASE {} SET default_tablespace = {}").format(database, name)
                )
                yield url
            connection.execute(sql.SQL("DROP TABLESPACE {}").format(name))
    finally:
        subprocess.run(["umount", str(place)], check=True)
        place.rmdir()


def _more_disk(url: str) -> None:
    query(url, f"ALTER DATABASE {psycopg.conninfo.conninfo_to_dict(url)['dbname']} "
          "SET default_tablespace = ''")  # fmt: skip


def test_disk_full_while_building(tiny_disk: str) -> None:
    before = written(tiny_disk)
    freqdp(tiny_disk, "dataset", "build", "city").refused("disk", "full")
    assert _but_leftovers(written(tiny_disk)) == before
    _more_disk(tiny_disk)
    assert freqdp(tiny_disk, "dataset", "build", "city").succeeded()["trajectories"] == 40
    assert _leftovers(written(tiny_disk)) == []


def test_disk_full_while_writing_a_release(tiny_disk: str) -> None:
    freqdp(tiny_disk, "anonymize", "city", "--method", "lg").refused("disk", "full")
    assert query(tiny_disk, "SELECT name FROM freqdp_release.catalog") == []
    _more_disk(tiny_disk)
    answer = freqdp(tiny_disk, "anonymize", "city", "--method", "lg").succeeded()
    assert (answer["resumed"], answer["state"]) == (True, "published")
    assert value(tiny_disk, "SELECT count(*) FROM freqdp.spend WHERE kind = 'spend'") == 1
    assert _leftovers(written(tiny_disk)) == []


def _is_leftover(name: str) -> bool:
    return name.startswith("staging_") or name.endswith(
        ("_2", "_2_pkey", "_2_build_id_cell_id_idx")
    )


def _leftovers(state: dict[str, Any]) -> list[str]:
    return [n for s, n, _ in state["relations"] if s == "freqdp" and n.startswith("staging_")]


def _but_leftovers(state: dict[str, Any]) -> dict[str, Any]:
    """What is left when the private tables of the failed build are looked past."""
    kept = [r for r in state["relations"] if not _is_leftover(r[1])]
    rest = {k: v for k, v in state.items() if k != "relations" and not _is_leftover(k)}
    return {"relations": kept, **rest}
