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
from freqdp_db.loading import csvfile
from freqdp_db.loading.csvfile import GEOLIFE, OPENING, TDRIVE, CsvFormat, read_csv
from freqdp_db.loading.files import NO_TIME, BadRows, SourceSamples, expand, read_roads

CSV = CsvFormat("car", "when", "x", "y")
HEADER = "car,when,x,y\n"


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


def _read(tmp_path: Path, text: str) -> tuple[SourceSamples, BadRows]:
    path = tmp_path / "a.csv"
    path.write_text(text)
    bad = BadRows()
    (samples,) = read_csv([path], CSV, bad)
    return samples, bad


def test_csv_rows_and_reasons(tmp_path: Path) -> None:
    samples, bad = _read(
        tmp_path,
        "y,junk,car,when,x\n"
        '50,"a\nb",é1,2024-01-01 00:00:00,4.5\n'
        "50,,b,2024-07-01T02:00:00+02:00,4\n"
        "50,,,2024-01-01,4\n"
        f"50,,{'long' * 51},2024-01-01,4\n"
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
        "object of more than 200 bytes": 1,
        "no such time": 1,
        "no such coordinate": 2,
        "another number of columns": 1,
    }
    with pytest.raises(BadInput) as refused:
        bad.refuse("x")
    assert "yesterday" not in refused.value.message and "a.csv" in refused.value.message


def test_csv_line_numbers_jump_over_uneven_rows(tmp_path: Path) -> None:
    _, bad = _read(tmp_path, HEADER + "a,2024-01-01,1,2\nuneven\na,never,1,2\na,1,2,3,4\n")
    with pytest.raises(BadInput, match=r"no such time \(line 4\).*columns \(line 3, 5\)"):
        bad.refuse("x")


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
    parse = csvfile.time_parser(time_format, csvfile.time_zone(timezone))
    assert parse(pa.array([value])).tolist() == [_us(expected)]
    # One bad row sends the block through the slow path, which must agree.
    assert parse(pa.array([value, "?"])).tolist() == [_us(expected), NO_TIME]


def test_zones_formats_and_times_that_are_none() -> None:
    with pytest.raises(BadInput, match="timezone"):
        csvfile.time_zone("Mars/Olympus")
    with pytest.raises(BadInput, match="time_format"):
        csvfile.time_parser("ddmmyy", UTC)
    parse = csvfile.time_parser("epoch", UTC)
    assert parse(pa.array(["1e30", "-1e30", "inf", ""])).tolist() == [NO_TIME] * 4


@pytest.mark.parametrize(
    ("name", "content", "layout", "said"),
    [
        ("a.csv", b"", CSV, "is empty"),
        ("a.csv", b"a,b\n1,2\n", CSV, "object car"),
        ("a.csv", b"7,secret,1\n", CSV, "object car"),
        ("a.csv", b"1,2,secret\n", CsvFormat("1", "2", "3", "4", header=False), "lat 4"),
        ("a.csv", HEADER.encode(), CsvFormat("car", "when", "x", "y", delimiter="ab"), "delimiter"),
        ("a.csv", HEADER.encode() + b"secret\xfc,2024-01-01,1,2\n", CSV, "cannot be read"),
        ("a.csv.gz", HEADER.encode(), CSV, "cannot be read"),
        ("x" * 201 + ".csv", b"1,4,5\n", CsvFormat(None, "1", "2", "3", header=False), "200 bytes"),
    ],
)
def test_files_that_do_not_fit(
    tmp_path: Path, name: str, content: bytes, layout: CsvFormat, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=said) as refused:
        list(read_csv([tmp_path / name], layout, BadRows()))
    assert "secret" not in f"{refused.value.message} {refused.value.remedy}"


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
        (tmp_path / f"{number}.csv").write_text(HEADER + (row + "\n") * (OPENING // 2))
    (tmp_path / "3.csv").write_text(HEADER + good * 10)
    bad = BadRows()
    with pytest.raises(BadInput) as refused:
        list(read_csv(sorted(tmp_path.iterdir()), CSV, bad))
    assert option in str(refused.value.as_options()["message"])
    assert bad.total <= 1.5 * OPENING
    assert "01/02" not in refused.value.message

    # one good row among them: they are bad rows, not a wrong option
    (tmp_path / "0.csv").write_text(HEADER + good + (row + "\n") * (2 * OPENING))
    bad = BadRows()
    assert sum(map(len, read_csv(sorted(tmp_path.iterdir()), CSV, bad))) == 11
    assert bad.total == 3 * OPENING


def test_a_long_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(HEADER + "a,1709294400,4,50\n" * 200_000)
    bad = BadRows()
    with pytest.raises(BadInput, match="time_format iso"):
        list(read_csv([path], CSV, bad))
    assert bad.total < 50_000


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
    files = csvfile.tdrive_files(str(tmp_path))
    assert [f.name for f in files] == ["2.txt", "3.txt", "10.txt"]
    two, ten = read_csv(files, TDRIVE, BadRows())
    assert (two.object_id.tolist(), ten.object_id.tolist()) == ([b"2", b"2"], [b"10"])
    assert two.at_us[0] == _us("2008-02-02T07:36:08Z")
    assert (two.x.tolist(), ten.x.tolist()) == ([116.5, 0], [6.7e-4])
    assert [f.name for f in csvfile.tdrive_files(str(tmp_path), min_samples=2)] == ["2.txt"]
    assert [f.name for f in csvfile.tdrive_files(str(tmp_path), limit=1)] == ["2.txt"]


@pytest.mark.parametrize(
    "line", ["2,secret,1,2", "secret,2008-02-02 15:36:08,1,2", "2,2008-02-02,116.5", ",,,", "x"]
)
def test_tdrive_names_file_and_line_of_what_it_cannot_read(tmp_path: Path, line: str) -> None:
    good = "2,2008-02-02 15:36:08,116.5,39.9\n"
    (tmp_path / "1.txt").write_text(good * 10)
    (tmp_path / "2.txt").write_text(good * 6 + line + "\n" + good)
    bad = BadRows()
    read = read_csv(csvfile.tdrive_files(str(tmp_path)), TDRIVE, bad)
    assert sum(map(len, read)) == 17
    with pytest.raises(BadInput, match=r"2\.txt: 1 x .* \(line 7\)") as refused:
        bad.refuse("x")
    assert "secret" not in refused.value.message


@pytest.mark.parametrize("data", ["Data", "data"])
def test_geolife(tmp_path: Path, data: str) -> None:
    for user, blank in (("000", ""), ("010", "\n")):
        place = tmp_path / data / user / "Trajectory"
        place.mkdir(parents=True)
        rows = "39.9,116.3,0,492,40097.5,2009-10-11,14:04:30\r\n" + blank
        rows += "39.8,116.4,0,-777,40097.5,2009-10-11,14:04:35\r\nuneven\n"
        (place / "a.plt").write_text("header\n" * 6 + rows)
        (place / "b.plt").write_text("header\n" * 6)
    bad = BadRows()
    found = list(read_csv(csvfile.geolife_files(str(tmp_path)), GEOLIFE, bad))
    assert [s.object_id.tolist() for s in found] == [[b"000"] * 2, [b"010"] * 2]
    assert found[0].at_us[0] == _us("2009-10-11T14:04:30Z")
    assert found[0].x[0] == 116.3
    assert np.isnan(found[1].extra["altitude"]).tolist() == [False, True]
    with pytest.raises(BadInput, match=r"columns \(line 9\)"):
        bad.refuse("x")


@pytest.mark.parametrize("find", [csvfile.tdrive_files, csvfile.geolife_files])
def test_wrong_folders(tmp_path: Path, find: object) -> None:
    assert callable(find)
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(BadInput):
            find(str(path))


def test_roads(tmp_path: Path) -> None:
    nodes, edges = tmp_path / "n.csv", tmp_path / "e.csv"
    nodes.write_text("node_id,lon,lat\n1,4,50\n2,4.1,50\n")
    edges.write_text('edge_id,u,v,length_m,wkt\n7,1,2,9.5,"LINESTRING(4 50,4.05 50.01,4.1 50)"\n')
    road = {name: values[0] for name, values in read_roads(nodes, edges).items()}
    assert road.pop("geom").tolist() == [[4, 50], [4.05, 50.01], [4.1, 50]]
    assert np.isnan(road.pop("speed_kmh"))
    assert road == {
        "id": 7, "source": 1, "target": 2, "name": None, "kind": None, "length_m": 9.5, "oneway": True,
    }  # fmt: skip
    edges.write_text("edge_id,u,v,length_m\n7,1,2,9.5\n8,1,3,1\n9,1,2,x\n7,2,1,4\n")
    with pytest.raises(BadInput, match=r"3 row.*nodes file.*line 3.*line 4.*given before.*line 5"):
        read_roads(nodes, edges)
    edges.write_text("id,u,v\n")
    with pytest.raises(BadInput, match="edge_id, length_m"):
        read_roads(nodes, edges)


def test_what_is_missing_is_null_on_the_wire() -> None:
    columns = (Column("at", "timestamptz", ""), Column("t", "text", ""), Column("n", "int4", ""))
    chunk = {"at": np.array([0, NO_TIME]), "t": [b"ab", None], "n": np.array([7, 8])}
    null = b"\xff\xff\xff\xff"
    at = b"\0\0\0\x08" + (-946_684_800_000_000).to_bytes(8, signed=True)
    assert bytes(encode(PlainTable(("a", "b"), columns, ""), chunk)) == (
        b"\0\3" + at + b"\0\0\0\2ab" + b"\0\0\0\4\0\0\0\7"
        + b"\0\3" + null + null + b"\0\0\0\4\0\0\0\x08"
    )  # fmt: skip
