"""Tables of every kind of trouble. No refusal may show a key or a coordinate of theirs."""

from __future__ import annotations

from world import freqdp, query

SECRETS = ("Zaphod", "116.39", "39.90", "116391", "39901")
BUILT = ("--from", "src.good", "--object", "who", "--time", "at", "--geom", "geom")
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


def make_sources(url: str) -> None:
    """All these tables; `built` with a release called taken, and `unbuilt`."""
    query(url, GOOD)
    freqdp(url, "dataset", "add", "built", *BUILT, "--budget", "2.5").succeeded()
    freqdp(url, "dataset", "build", "built").succeeded()
    freqdp(url, "anonymize", "built", "--as", "taken", "--method", "pure-g").succeeded()
    freqdp(url, "dataset", "add", "unbuilt", *BUILT).succeeded()
