"""The readers of files and names: what they accept, and what they say about the rest."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freqdp_db.db.names import format_relation, parse_relation
from freqdp_db.db.plain_tables import Column, PlainTable, encode
from freqdp_db.errors import BadInput
from freqdp_db.loading import csvfile as clock
from freqdp_db.loading import files as published
from freqdp_db.loading import files as roadfile
from freqdp_db.loading.csvfile import OPENING, CsvFormat, read_csv, text_bytes
from freqdp_db.loading.files import NO_TIME, BadRows, SourceSamples, expand

CSV = CsvFormat("car", "when", "x", "y")


def _us(text: str) -> int:
    return round(datetime.fromisoformat(text).astimezone(UTC).timestamp()) * 1_000_000


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("city", ("public", "city")),
        ("demo.city", ("demo", "city")),
        ("Demo.City", ("demo", "city")),
        ('"My Schema"."t.x"', ("My Schema", "t.x")),
        ('a."say ""hi"""', ("a", 'say "hi"')),
        ("straße.größe", ("straße", "größe")),
    ],
)
def test_relation_names(text: str, parsed: tuple[str, str]) -> None:
    assert parse_relation(text) == parsed


@pytest.mark.parametrize(
    "text",
    ["", ".", "a.", ".b", "a.b.c", "a b", '"a', '""', 'a.""', "a-b", "1a", "a;drop", "é" * 40],
)
def test_malformed_relation_names(text: str) -> None:
    with pytest.raises(BadInput, match="into"):
        parse_relation(text, "--into")


_NAMES = st.text(
    st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=15
)


@given(_NAMES, _NAMES)
def test_formatted_names_parse_back(schema: str, name: str) -> None:
    assert parse_relation(format_relation(schema, name)) == (schema, name)


def _read(tmp_path: Path, text: str, layout: CsvFormat = CSV) -> tuple[SourceSamples, BadRows]:
    path = tmp_path / "a.csv"
    path.write_text(text)
    bad = BadRows()
    (samples,) = read_csv([path], layout, bad)
    return samples, bad


def test_csv_rows_and_reasons(tmp_path: Path) -> None:
    samples, bad = _read(
        tmp_path,
        "y,junk,car,when,x\n"
        '50,"a\nb",é1,2024-01-01 00:00:00,4.5\n'
        "50,,b,2024-07-01T02:00:00+02:00,4\n"
        "50,,,2024-01-01,4\n"
        "50,,c,yesterday,4\n"
        "none,,c,2024-01-01,4\n"
        "1,2\n"
        "50,,c,2024-01-01 00:00:00.25,nan\n"
        "50,,d,2024-01-01 00:00:01.25,4\n",
    )
    assert [i.decode() for i in samples.object_id] == ["é1", "b", "d"]
    assert samples.at_us.tolist() == [
        _us("2024-01-01T00:00:00Z"),
        _us("2024-07-01T00:00:00Z"),
        _us("2024-01-01T00:00:01Z") + 250_000,
    ]
    assert samples.x.tolist() == [4.5, 4, 4]
    assert bad.counts == {
        "no object": 1,
        "no such time": 1,
        "no such coordinate": 2,
        "another number of columns": 1,
    }
    with pytest.raises(BadInput) as refused:
        bad.refuse("x")
    assert "yesterday" not in refused.value.message
    assert "a.csv" in refused.value.message


def test_csv_line_numbers_jump_over_uneven_rows(tmp_path: Path) -> None:
    _, bad = _read(tmp_path, "car,when,x,y\na,2024-01-01,1,2\nuneven\na,never,1,2\na,1,2,3,4\n")
    with pytest.raises(BadInput) as refused:
        bad.refuse("x")
    assert "no such time (line 4)" in refused.value.message
    assert "columns (line 3, 5)" in refused.value.message


@pytest.mark.parametrize(
    ("time_format", "timezone", "value", "expected"),
    [
        ("iso", "UTC", "2024-03-01 12:00:00", "2024-03-01T12:00:00Z"),
        ("iso", "Asia/Shanghai", "2024-03-01T12:00:00", "2024-03-01T04:00:00Z"),
        ("iso", "Asia/Shanghai", "2024-03-01T12:00:00Z", "2024-03-01T12:00:00Z"),
        ("iso", "Europe/Brussels", "2024-07-01 12:00", "2024-07-01T10:00:00Z"),
        # The clock shows this time twice; the first is meant.
        ("iso", "Europe/Brussels", "2024-10-27 02:30:00", "2024-10-27T00:30:00Z"),
        ("epoch", "Asia/Shanghai", "1709294400", "2024-03-01T12:00:00Z"),
        ("epoch-ms", "UTC", "1709294400000", "2024-03-01T12:00:00Z"),
        ("%d/%m/%Y %H:%M", "Asia/Kathmandu", "01/03/2024 17:45", "2024-03-01T12:00:00Z"),
        ("%Y%m%d%H%M%S%z", "UTC", "20240301140000+0200", "2024-03-01T12:00:00Z"),
    ],
)
def test_time_formats(time_format: str, timezone: str, value: str, expected: str) -> None:
    parse = clock.parser(time_format, clock.time_zone(timezone))
    assert parse(pa.array([value])).tolist() == [_us(expected)]
    # One bad row sends the block through the slow path, which must agree.
    assert parse(pa.array([value, "?"])).tolist() == [_us(expected), NO_TIME]


def test_unknown_zone_and_format() -> None:
    with pytest.raises(BadInput, match="timezone"):
        clock.time_zone("Mars/Olympus")
    with pytest.raises(BadInput, match="time_format"):
        clock.parser("ddmmyy", UTC)


def test_times_beyond_the_calendar_are_no_times() -> None:
    parse = clock.parser("epoch", UTC)
    assert parse(pa.array(["1e30", "-1e30", "inf", ""])).tolist() == [NO_TIME] * 4


@given(st.lists(st.text(max_size=12)))
def test_text_bytes(values: list[str]) -> None:
    values = [v.replace("\x00", "") for v in values]
    taken, lengths = text_bytes(pa.array(values, pa.string()))
    assert [t.decode() for t in taken] == values
    assert lengths.tolist() == [len(v.encode()) for v in values]


@pytest.mark.parametrize(
    ("content", "layout", "said"),
    [
        ("", CSV, "is empty"),
        ("a,b\n1,2\n", CSV, "object car"),
        ("7,secret,1\n", CSV, "object car"),
        ("1,2,3\n", CsvFormat("1", "2", "3", "4", header=False), "lat 4"),
        ("car,when,x,y\n", CsvFormat("car", "when", "x", "y", delimiter="ab"), "delimiter"),
    ],
)
def test_files_that_do_not_fit(tmp_path: Path, content: str, layout: CsvFormat, said: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content)
    with pytest.raises(BadInput, match=said) as refused:
        list(read_csv([path], layout, BadRows()))
    assert "secret" not in f"{refused.value.message} {refused.value.remedy}"


def test_latin1_and_false_gzip_are_refused_without_their_content(tmp_path: Path) -> None:
    latin = tmp_path / "a.csv"
    latin.write_bytes(b"car,when,x,y\nm\xfcller,2024-01-01,1,2\n")
    gz = tmp_path / "b.csv.gz"
    gz.write_bytes(b"car,when,x,y\n")
    for path in (latin, gz):
        with pytest.raises(BadInput, match="cannot be read") as refused:
            list(read_csv([path], CSV, BadRows()))
        assert "ller" not in refused.value.message


def test_no_header_delimiter_and_gzip(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"4;50;7;0\n5;51;8;60\n"))
    layout = CsvFormat("3", "4", "1", "2", ";", header=False, time_format="epoch")
    (samples,) = read_csv([path], layout, BadRows())
    assert samples.object_id.tolist() == [b"7", b"8"]
    assert samples.at_us.tolist() == [0, 60_000_000]
    assert samples.y.tolist() == [50, 51]


@pytest.mark.parametrize(
    ("row", "option"),
    [
        ("a,01/02/2024 10:00,4,50", "--time-format iso does not fit --time when"),
        ("a,2024-01-01,four,50", "--lon x and --lat y"),
        (",2024-01-01,4,50", "--object car"),
        ("a,2024-01-01,4,50,6", "--delimiter ,"),
    ],
)
def test_reading_ends_where_the_first_thousands_fail(tmp_path: Path, row: str, option: str) -> None:
    good = "a,2024-01-01,4,50\n"
    for number in range(3):
        # less than the opening in each file: it is counted over all of them
        (tmp_path / f"{number}.csv").write_text("car,when,x,y\n" + (row + "\n") * (OPENING // 2))
    (tmp_path / "3.csv").write_text("car,when,x,y\n" + good * 10)
    bad = BadRows()
    with pytest.raises(BadInput) as refused:
        list(read_csv(sorted(tmp_path.iterdir()), CSV, bad))
    assert option in str(refused.value.as_options()["message"])
    assert bad.total <= 1.5 * OPENING
    assert "01/02" not in refused.value.message

    # one good row among them: they are bad rows, not a wrong option
    (tmp_path / "0.csv").write_text("car,when,x,y\n" + good + (row + "\n") * (2 * OPENING))
    bad = BadRows()
    assert sum(map(len, read_csv(sorted(tmp_path.iterdir()), CSV, bad))) == 11
    assert bad.total == 3 * OPENING


def test_the_first_thousands_of_a_long_file_are_enough(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("car,when,x,y\n" + "a,1709294400,4,50\n" * 500_000)
    bad = BadRows()
    with pytest.raises(BadInput, match="time_format iso"):
        list(read_csv([path], CSV, bad))
    assert bad.total == OPENING


def test_the_object_is_the_name_of_its_file(tmp_path: Path) -> None:
    for name in ("car 1.csv", "é2.CSV.gz", "b.c.txt"):
        data = b"2024-01-01,4,50\n"
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    layout = CsvFormat(None, "1", "2", "3", header=False)
    taken: list[int] = []
    files = sorted(tmp_path.iterdir())
    rows = list(read_csv(files, layout, BadRows(), taken.append))
    assert [r.object_id[0].decode() for r in rows] == ["b.c", "car 1", "é2"]
    assert sum(taken) == sum(file.stat().st_size for file in files)
    long = tmp_path / ("x" * 201 + ".csv")
    long.write_text("2024-01-01,4,50\n")
    with pytest.raises(BadInput, match="200 bytes"):
        list(read_csv([long], layout, BadRows()))


def test_expand(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv.gz", "c.pdf"):
        (tmp_path / name).touch()
    names = [p.name for p in expand([str(tmp_path), str(tmp_path / "*.csv")], (".csv", ".csv.gz"))]
    assert names == ["a.csv.gz", "b.csv"]
    for missing in ("nothing.csv", "*.zip"):
        with pytest.raises(BadInput, match="missing"):
            expand([str(tmp_path / missing)], (".csv",))


def test_tdrive(tmp_path: Path) -> None:
    (tmp_path / "2.txt").write_text("2,2008-02-02 15:36:08,116.5,39.9\n2,2008-02-03 00:00:00,0,0")
    (tmp_path / "10.txt").write_text("10,2008-02-02 15:36:08,6.7E-4,39.9\r\n")
    (tmp_path / "3.txt").touch()
    files = published.tdrive_files(str(tmp_path))
    assert [f.name for f in files] == ["2.txt", "3.txt", "10.txt"]
    (samples,) = published.read_tdrive(files)
    assert samples.object_id.tolist() == [2, 2, 10]
    assert samples.at_us[0] == _us("2008-02-02T07:36:08Z")
    assert samples.x.tolist() == [116.5, 0, 6.7e-4]
    assert [f.name for f in published.tdrive_files(str(tmp_path), min_samples=2)] == ["2.txt"]
    assert [f.name for f in published.tdrive_files(str(tmp_path), limit=1)] == ["2.txt"]


@pytest.mark.parametrize("line", ["2,secret,1,2", "2,2008-02-02 15:36:08,116.5", ",,,", "x"])
def test_tdrive_names_file_and_line_of_what_it_cannot_read(tmp_path: Path, line: str) -> None:
    good = "2,2008-02-02 15:36:08,116.5,39.9\n"
    (tmp_path / "1.txt").write_text(good * 10)
    (tmp_path / "2.txt").write_text(good * 6 + line + "\n" + good)
    with pytest.raises(BadInput, match=r"2\.txt: 1 line.* line 7") as refused:
        list(published.read_tdrive(published.tdrive_files(str(tmp_path))))
    assert "secret" not in refused.value.message


@pytest.mark.parametrize("data", ["Data", "data"])
def test_geolife(tmp_path: Path, data: str) -> None:
    for user, blank in (("000", ""), ("010", "\n")):
        place = tmp_path / data / user / "Trajectory"
        place.mkdir(parents=True)
        rows = "39.9,116.3,0,492,40097.5,2009-10-11,14:04:30\r\n" + blank
        rows += "39.8,116.4,0,-777,40097.5,2009-10-11,14:04:35\r\n"
        (place / "a.plt").write_text("header\n" * 6 + rows)
    (samples,) = published.read_geolife(published.geolife_files(str(tmp_path)))
    assert samples.object_id.tolist() == [b"000", b"000", b"010", b"010"]
    assert samples.at_us[0] == _us("2009-10-11T14:04:30Z")
    assert samples.x[0] == 116.3
    assert np.isnan(samples.extra["altitude"]).tolist() == [False, True, False, True]


@pytest.mark.parametrize("find", [published.tdrive_files, published.geolife_files])
def test_wrong_folders(tmp_path: Path, find: object) -> None:
    assert callable(find)
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(BadInput):
            find(str(path))


def test_roads(tmp_path: Path) -> None:
    nodes, edges = tmp_path / "n.csv", tmp_path / "e.csv"
    nodes.write_text("node_id,lon,lat\n1,4,50\n2,4.1,50\n")
    edges.write_text('edge_id,u,v,length_m,wkt\n7,1,2,9.5,"LINESTRING(4 50,4.05 50.01,4.1 50)"\n')
    (road,) = roadfile.read_roads(nodes, edges)
    assert (road.id, road.source, road.target, road.length_m, road.oneway) == (7, 1, 2, 9.5, True)
    assert road.line.tolist() == [[4, 50], [4.05, 50.01], [4.1, 50]]
    edges.write_text("edge_id,u,v,length_m\n7,1,2,9.5\n8,1,3,1\n9,1,2,x\n7,2,1,4\n")
    with pytest.raises(BadInput, match=r"3 row.*nodes file.*line 3.*line 4.*given before.*line 5"):
        list(roadfile.read_roads(nodes, edges))
    edges.write_text("id,u,v\n")
    with pytest.raises(BadInput, match="edge_id, length_m"):
        list(roadfile.read_roads(nodes, edges))


def test_encoding_with_text_and_nulls_matches_the_plain_one() -> None:
    columns = (
        Column("id", "int4", ""),
        Column("at", "timestamptz", ""),
        Column("geom", "point", ""),
    )
    chunk = {
        "id": np.array([1, 2], np.int32),
        "at": np.array([0, 10**15]),
        "geom": np.array([[1.0, 2.0], [3.0, 4.0]]),
    }
    plain = bytes(memoryview(encode(PlainTable(("a", "b"), columns, ""), chunk)).cast("B"))
    table = PlainTable(("a", "b"), (*columns, Column("t", "text", "")), "")
    texts = [b"ab", b""]
    ragged = bytes(encode(table, {**chunk, "t": np.array(texts)}))
    width = len(plain) // 2
    expected = b"".join(
        b"\0\4" + plain[i * width + 2 : (i + 1) * width] + len(t).to_bytes(4, "big") + t
        for i, t in enumerate(texts)
    )
    assert ragged == expected
    chunk["at"] = np.array([0, NO_TIME])
    assert b"\xff\xff\xff\xff" in bytes(encode(table, {**chunk, "t": np.array(texts)}))
