"""Releases as others see them: the tables, the catalogue, the rights, the proof, the way back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from library import opened
from psycopg.conninfo import make_conninfo
from servers import clone_of
from world import anonymize, as_role, fingerprint, freqdp, query, same_rows, value, verify, withdraw

import freqdp_db
from freqdp_db.db import published as granting
from freqdp_db.db import staging
from freqdp_db.db.releases import find_release
from freqdp_db.errors import VerificationFailed
from freqdp_db.evaluation.pair import load_case
from freqdp_db.methods.frequency.steps import LocalStep
from freqdp_db.progress import Progress
from freqdp_db.release import inputs, pipeline
from freqdp_db.release.table import ReleaseRows
from freqdp_db.search import stored

CATALOG = [
    "name", "dataset", "method", "parameters", "published_at", "version", "guarantee", "granted",
    "rows", "ledger_head", "kind", "relations", "time_window", "series",
]  # fmt: skip


released = clone_of("city_r_db")


def test_columns_keys_and_comments(released: str) -> None:
    columns = query(
        released,
        "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, "
        "col_description(c.oid, a.attnum) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
        "WHERE c.relnamespace = 'freqdp_release'::regnamespace AND c.relname IN ('r', 'r_line') "
        "AND a.attnum > 0 ORDER BY c.relname, a.attnum",
    )
    assert [row[:4] for row in columns] == [
        ("r", "trajectory_id", "bigint", True),
        ("r", "seq", "integer", True),
        ("r", "sampled_at", "timestamp with time zone", True),
        ("r", "geom", "geometry(Point,4326)", True),
        ("r_line", "trajectory_id", "bigint", True),
        ("r_line", "day", "date", True),
        ("r_line", "geom", "geometry(LineStringM,4326)", True),
    ]
    assert all(row[4] for row in columns)
    indexes = query(
        released,
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'freqdp_release' "
        "AND tablename LIKE 'r%%' ORDER BY 1",
    )
    assert [
        f"{name} {'UNIQUE ' * ('UNIQUE' in made)}{made.partition(' USING ')[2]}"
        for name, made in indexes
    ] == [
        "r_geom_idx gist (geom)",
        "r_line_geom_idx gist (geom)",
        "r_line_pkey UNIQUE btree (trajectory_id, day)",
        "r_pkey UNIQUE btree (trajectory_id, seq)",
        "r_sampled_at_idx btree (sampled_at)",
        "r_trip_geom_idx gist (geom)",
        "r_trip_pkey UNIQUE btree (trajectory_id, trip)",
        "r_trip_start_at_idx btree (start_at)",
    ]
    for relation in ("r", "r_line", "r_trip"):
        comment = value(released, f"SELECT obj_description('freqdp_release.{relation}'::regclass)")
        assert "lg" in comment
        assert "not differentially private" in comment
        assert "epsilon 0.5 per" in comment
    # analysed: the planner, and QGIS, know how large it is
    assert value(
        released, "SELECT reltuples::int FROM pg_class WHERE oid = 'freqdp_release.r'::regclass"
    ) == value(released, "SELECT count(*) FROM freqdp_release.r")


def test_rows_are_trajectories(released: str) -> None:
    """seq counts from 1 without a gap, times do not fall, the line is the same thing again."""
    assert query(
        released,
        "SELECT count(*) FROM (SELECT seq, sampled_at, row_number() OVER w AS expected, "
        "lag(sampled_at) OVER w AS before FROM freqdp_release.r "
        "WINDOW w AS (PARTITION BY trajectory_id ORDER BY seq)) s "
        "WHERE seq <> expected OR sampled_at < before",
    ) == [(0,)]
    assert query(
        released,
        """
        SELECT count(*) FROM (
            SELECT trajectory_id, (sampled_at AT TIME ZONE 'UTC')::date AS day, count(*) AS n,
                ST_MakeLine(ST_SetSRID(ST_MakePointM(ST_X(geom), ST_Y(geom),
                    extract(epoch FROM sampled_at)::float8), 4326) ORDER BY seq) AS made
            FROM freqdp_release.r GROUP BY 1, 2
        ) p FULL JOIN freqdp_release.r_line l USING (trajectory_id, day)
        WHERE (p.n >= 2) <> (l.trajectory_id IS NOT NULL)
            OR l.geom IS NOT NULL AND ST_AsEWKB(l.geom) <> ST_AsEWKB(p.made)
        """,
    ) == [(0,)]
    # a release shows places of the build and no others
    assert query(
        released,
        "SELECT count(*) FROM freqdp_release.r WHERE ST_AsEWKB(geom) NOT IN "
        "(SELECT ST_AsEWKB(geom) FROM freqdp.location)",
    ) == [(0,)]


def test_ids_and_physical_order_say_nothing(city: str) -> None:
    for name in ("one", "two"):
        anonymize(city, "city", "lg", "--as", name, "--new-draw")
    for name in ("one", "two"):
        for relation in (name, f"{name}_line"):
            stored = query(
                city, f"SELECT trajectory_id FROM freqdp_release.{relation} ORDER BY ctid"
            )
            assert stored == sorted(stored)
    rows = query(
        city,
        "SELECT k.trajectory_id, k.released_id, o.released_id FROM freqdp.release_key k "
        "JOIN freqdp.release_key o USING (trajectory_id) WHERE k.release_id = 1 AND o.release_id = 2 "
        "ORDER BY 1",
    )
    first, second = [row[1] for row in rows], [row[2] for row in rows]
    assert len(rows) == 40
    # fresh ones for every release, out of a range that nobody guesses, in no order of the objects
    assert not set(first) & set(second)
    for ids in (first, second):
        assert len(set(ids)) == 40
        assert all(10**11 <= i < 10**12 for i in ids)
        assert ids != sorted(ids)
    assert sorted(range(40), key=first.__getitem__) != sorted(range(40), key=second.__getitem__)


def test_catalogue(released: str) -> None:
    with psycopg.connect(released) as connection:
        cursor = connection.execute("SELECT * FROM freqdp_release.catalog")
        assert [c.name for c in cursor.description or []] == CATALOG
        entry = dict(zip(CATALOG, cursor.fetchone() or (), strict=True))
        assert cursor.fetchone() is None
    assert entry["name"] == "r"
    assert entry["dataset"] == "city"
    assert entry["method"] == "lg"
    assert entry["parameters"] == {
        "epsilon_global": "0.5",
        "epsilon_local": "0.5",
        "signature": 10,
        "spread": "500",
    }
    assert entry["kind"] == "edited"
    assert entry["version"] == 1
    assert entry["granted"] is True
    assert entry["rows"] == value(released, "SELECT count(*) FROM freqdp_release.r")
    assert entry["ledger_head"] == value(released, "SELECT head FROM freqdp.budget")
    assert entry["guarantee"]["artefacts"]["trajectories"]["claimed_epsilon"] is None
    assert entry["guarantee"]["artefacts"]["tf_vector"]["accounted_epsilon"] == "0.5"
    # nothing that was counted from the data is published
    shown = freqdp(released, "release", "show", "r").succeeded()
    private = shown["user_level"]["global"]["candidates_per_user_mean"]
    assert str(private) not in str(entry)
    freqdp(released, "ledger", "verify", "--head", entry["ledger_head"]).succeeded()
    assert freqdp(released, "ledger", "verify", "--head", "0" * 64).code == 3


def _analyst(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(as_role(url, "analyst", "-c search_path=public"), autocommit=True)


def test_seeded_release_is_not_private(city: str) -> None:
    answer = anonymize(city, "city", "lg", "--seed", "7", "--as", "seeded")
    assert answer["grantable"] is False
    assert query(city, "SELECT granted, guarantee->>'noise' FROM freqdp_release.catalog") == [
        (False, "seeded: reproducible, therefore not private")
    ]
    assert "do not publish" in value(
        city, "SELECT obj_description('freqdp_release.seeded'::regclass)"
    )
    with _analyst(city) as reader:
        shown = reader.execute("SELECT name, granted FROM freqdp_release.catalog").fetchall()
        assert shown == [("seeded", False)]
        for relation in ("seeded", "seeded_line"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(f"SELECT * FROM freqdp_release.{relation}".encode())
    # the same seed gives the same table, row by row; it spends all the same
    anonymize(city, "city", "lg", "--seed", "7", "--as", "again", "--new-draw")
    assert same_rows(city, "freqdp_release.seeded", "freqdp_release.again")
    assert Decimal(freqdp(city, "budget", "city").succeeded()["spent"]) == 2


TAMPERINGS = [
    "UPDATE {r} SET sampled_at = sampled_at + interval '1 us' WHERE ctid = '(0,7)'",
    "UPDATE {r} SET geom = ST_Translate(geom, 1e-9, 0) WHERE ctid = '(0,7)'",
    "UPDATE {r} SET trajectory_id = trajectory_id + 1 WHERE ctid = '(0,7)'",
    "UPDATE {r} SET seq = 1000000 WHERE ctid = '(0,7)'",
    "DELETE FROM {r} WHERE ctid = '(0,7)'",
    "DELETE FROM {r} WHERE trajectory_id = (SELECT max(trajectory_id) FROM {r})",
    "TRUNCATE {r}",
    "INSERT INTO {r} SELECT trajectory_id, seq + 1, sampled_at, geom FROM {r} "
    "ORDER BY trajectory_id DESC, seq DESC LIMIT 1",
    "UPDATE {r}_line SET geom = ST_Reverse(geom) WHERE ctid = '(0,1)'",
    "DELETE FROM {r}_line WHERE ctid = '(0,1)'",
    "INSERT INTO {r}_line SELECT 9223372036854775807, day, geom FROM {r}_line LIMIT 1",
    "UPDATE {r}_line SET day = day - 100 WHERE ctid = '(0,1)'",
    "UPDATE {p}.edit_run SET seq[1] = seq[1] + 1 WHERE (release_id, step, operation) = (1, 1, 'd')"
    " AND trajectory_id = 5",
    "UPDATE {p}.edit_run SET seq[1] = 1000000 WHERE (step, operation) = (1, 'd')",
    "UPDATE {p}.edit_run SET seq[1] = -5 WHERE (step, operation) = (1, 'd')",
    "UPDATE {p}.edit_run SET seq[1] = 1000000 WHERE (step, operation) = (2, 'i')",
    "UPDATE {p}.edit_run SET seq[1] = -100 WHERE (step, operation) = (2, 'i')",
    "UPDATE {p}.edit_run SET trajectory_id = 100000 + trajectory_id WHERE operation = 'i'",
    "UPDATE {p}.edit_run SET trajectory_id = -1 - trajectory_id WHERE operation = 'd'",
    "UPDATE {p}.edit_run SET location_id = 10000000 + location_id WHERE operation = 'i'",
    "UPDATE {p}.edit_run SET location_id = -1 - location_id WHERE operation = 'i'",
    "UPDATE {p}.edit_run SET seq = seq || 1 WHERE (step, operation) = (1, 'd')",
    "UPDATE {p}.edit_run SET loss_m = loss_m || 1.0::float8 WHERE (step, operation) = (1, 'd')",
    "UPDATE {p}.edit_run SET loss_m[1] = loss_m[1] + 1",
    "UPDATE {p}.edit_run SET seq = '{{}}', loss_m = '{{}}' WHERE operation = 'i'",
    "UPDATE {p}.edit_run SET seq[1] = NULL WHERE operation = 'd'",
    "DELETE FROM {p}.edit_run WHERE ctid = '(0,1)'",
    "DELETE FROM {p}.edit_run",
    "UPDATE {p}.tf_target SET target = target + 1 WHERE ctid = '(0,3)'",
    "UPDATE {p}.pf_target SET target = target + 1 WHERE ctid = '(0,3)'",
    "UPDATE {p}.tf_target SET location_id = 10000000 + location_id",
    "UPDATE {p}.release_step SET counts = counts - 'deletions'",
    "DELETE FROM {p}.release_step WHERE step = 2",
    "UPDATE {p}.release_key SET released_id = 17 WHERE trajectory_id = 3",
    "DELETE FROM {p}.release_key WHERE trajectory_id = 3",
    "UPDATE {p}.sample SET location_id = 0 WHERE (trajectory_id, seq) = (3, 2)",
    "DELETE FROM {p}.sample WHERE (trajectory_id, seq) = (3, 2)",
]


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_verify_sees_tampering(released: str, tampering: str) -> None:
    before = value(released, "SELECT txid_current()")
    query(released, tampering.format(r="freqdp_release.r", p="freqdp"))
    answer = freqdp(released, "release", "verify", "r")
    assert answer.code == 3, answer.out + answer.err
    assert answer.document["error"] == "VerificationFailed"
    assert "Traceback" not in answer.err
    assert value(released, "SELECT txid_current()") > before


def _checks(url: str, name: str = "r") -> list[Any]:
    return query(url, "SELECT what, expected, found, ok FROM freqdp.check_release(%s)", name)


def test_the_server_checks_by_itself(released: str) -> None:
    """Frequencies after each step, by SQL alone; an auditor may ask for it, an analyst may not."""
    checks = _checks(released)
    assert len(checks) == 8 and all(ok for *_, ok in checks)
    targets = value(
        released,
        "SELECT (SELECT count(*) FROM freqdp.tf_target) + (SELECT count(*) FROM freqdp.pf_target)",
    )
    assert sum(found for what, _, found, _ in checks if what.endswith("are the targets")) == targets
    for role, may in (("auditor", True), ("runner", True), ("analyst", False)):
        with psycopg.connect(make_conninfo(released, options=f"-c role=freqdp_{role}")) as session:
            if may:
                assert session.execute(
                    "SELECT bool_and(ok) FROM freqdp.check_release('r')"
                ).fetchone()
            else:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    session.execute("SELECT * FROM freqdp.check_release('r')")
    with pytest.raises(psycopg.Error) as unknown:
        _checks(released, "nobody")
    assert unknown.value.sqlstate == "QF002"


@pytest.mark.parametrize(
    ("tampering", "failing"),
    [
        ("DELETE FROM {r} WHERE ctid = '(0,7)'", "rows of r"),
        ("UPDATE {r} SET geom = ST_Translate(geom, 1e-9, 0) WHERE ctid = '(0,7)'", "rows of ids"),
        ("UPDATE {r} SET trajectory_id = trajectory_id + 1 WHERE ctid = '(0,7)'", "rows of ids"),
        ("UPDATE {r} SET geom = (SELECT geom FROM {r} ORDER BY geom LIMIT 1) WHERE seq = 3",
         "edits are undone"),
        ("UPDATE {p}.tf_target SET target = target + 1", "frequencies that are the targets"),
        ("UPDATE {p}.pf_target SET pf = pf + 1", "targets were drawn from"),
        ("DELETE FROM {p}.edit_run WHERE ctid = '(0,1)'", "edits are undone"),
        ("UPDATE {p}.location SET tf = tf + 1 WHERE location_id = 7", "of the build's samples"),
    ],
)  # fmt: skip
def test_the_server_sees_tampering(released: str, tampering: str, failing: str) -> None:
    query(released, tampering.format(r="freqdp_release.r", p="freqdp"))
    assert any(failing in what for what, _, _, ok in _checks(released) if not ok)


def test_verify_asks_the_server(released: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What only SQL sees fails, too: here the comparison in Python sees nothing."""
    query(released, "UPDATE freqdp_release.r SET geom = ST_Translate(geom, 1e-9, 0) WHERE seq = 3")
    monkeypatch.setattr(ReleaseRows, "compare", lambda *arguments: [(None, 0, "")])
    answer = freqdp(released, "release", "verify", "r")
    assert answer.code == 3 and "check_release" in answer.err


def _released_case(url: str) -> Any:
    with opened(url) as database:
        return load_case(database, find_release(database, "r"), Progress())


def test_what_was_verified_is_not_verified_again(
    released: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: Any, **more: Any) -> None:
        raise AssertionError("verified again")

    with monkeypatch.context() as patched:
        patched.setattr(ReleaseRows, "compare", never)
        patched.setattr(LocalStep, "check", never)
        assert len(_released_case(released)) > 0
        # nor is a release of an earlier version taken for one that was verified
        query(released, "UPDATE freqdp.release SET digests = NULL")
        with pytest.raises(AssertionError, match="verified again"):
            _released_case(released)
    _released_case(released)
    assert value(
        released, "SELECT digests -> 'tables' -> '' -> 0 ->> 1 = rows::text FROM freqdp.release"
    )


# of the table, its lines, the log, the key and the originals
@pytest.mark.parametrize("tampering", [TAMPERINGS[n] for n in (0, 8, 12, 33, 35)])
def test_what_has_changed_is_verified_again(released: str, tampering: str) -> None:
    query(released, tampering.format(r="freqdp_release.r", p="freqdp"))
    with pytest.raises(VerificationFailed):
        _released_case(released)


def _nothing_published(url: str) -> None:
    assert value(url, "SELECT count(*) FROM freqdp_release.catalog") == 0
    assert value(url, "SELECT state FROM freqdp.release") == "running"


def test_a_table_that_is_not_as_it_was_sent_is_not_published(
    city: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = staging.write_records

    def otherwise(raw: Any, table: Any, columns: Any, blocks: Any, **how: Any) -> None:
        def changed() -> Iterator[Any]:
            for number, block in enumerate(blocks):
                if number == 0 and block.dtype.names:
                    block = block.copy()
                    block["sampled_at"][0] -= 1
                yield block

        sent(raw, table, columns, changed(), **how)

    monkeypatch.setattr(staging, "write_records", otherwise)
    answer = freqdp(city, "anonymize", "city", "--method", "lg", "--epsilon", "1")
    assert answer.code == 3 and "does not hold the rows" in answer.err
    _nothing_published(city)


def test_what_is_written_has_to_be_what_the_log_gives(
    city: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed = pipeline.replay_steps

    def otherwise(*arguments: Any, **more: Any) -> Any:
        found = replayed(*arguments, **more)
        later = replace(found.state.trajectories, at=found.state.trajectories.at + 1)
        return replace(found, state=replace(found.state, trajectories=later))

    monkeypatch.setattr(pipeline, "replay_steps", otherwise)
    answer = freqdp(city, "anonymize", "city", "--method", "lg", "--epsilon", "1")
    assert answer.code == 3 and "not what its draws and logs give" in answer.err
    _nothing_published(city)


def test_verify_says_what_it_has_checked(city: str) -> None:
    said = anonymize(city, "city", "lg", "--as", "r")
    found = verify(city, "r")
    assert {k: found[k] for k in ("rows", "trajectories", "checked")} == said["verified"]
    assert found["checked"]["targets"] == sum(step["drawn"] for step in said["steps"])
    edits = (s["counts"]["deletions"] + s["counts"]["insertions"] for s in said["steps"])
    assert found["checked"]["edits"] == sum(edits)


def test_verify_does_not_care_for_physical_order(released: str) -> None:
    """A restored or clustered table is the same release."""
    query(released, "CREATE INDEX by_place ON freqdp_release.r (sampled_at DESC)")
    query(released, "CLUSTER freqdp_release.r USING by_place")
    verify(released, "r")


def _state(url: str) -> tuple[str, list[str]]:
    """Of the release r, and what is left of its relations."""
    left = query(
        url,
        "SELECT relname FROM pg_class WHERE relnamespace = 'freqdp_release'::regnamespace "
        "AND relname IN ('r', 'r_line', 'r_trip') ORDER BY 1",
    )
    return value(url, "SELECT state FROM freqdp.release WHERE name = 'r'"), [n for (n,) in left]


def test_withdraw_names_what_hangs_on_it(released: str) -> None:
    """Nobody reads it any more; its rows are gone, and the tables follow when the views have."""
    query(released, "CREATE SCHEMA work")
    query(released, 'CREATE VIEW work."My Trips" AS SELECT * FROM freqdp_release.r')
    query(released, "CREATE MATERIALIZED VIEW work.lines AS TABLE freqdp_release.r_line")
    source = fingerprint(released, "demo.city")
    first = withdraw(released, "r")
    assert (first["withdrawn"], first["was"]) == ("r", "published")
    statements = ['DROP VIEW work."My Trips"', "DROP MATERIALIZED VIEW work.lines"]
    assert all(statement in first["waits_for"] for statement in statements)
    assert _state(released) == ("withdrawing", ["r", "r_line", "r_trip"])
    assert value(released, "SELECT count(*) FROM freqdp_release.r") == 0
    assert query(released, "SELECT name FROM freqdp_release.catalog") == []
    shown = freqdp(released, "release", "withdraw", "r", in_words=True)
    assert shown.code == 0 and "still there" in shown.out
    freqdp(released, "release", "verify", "r").refused("withdrawing")
    # the remedy works as it is written
    for statement in statements:
        query(released, statement)
    again = withdraw(released, "r")
    assert again == {"withdrawn": "r", "was": "withdrawing", "waits_for": None}
    assert _state(released) == ("withdrawn", [])
    assert fingerprint(released, "demo.city") == source


@pytest.mark.parametrize(
    ("how", "table"),
    [
        *(("transaction", table) for table in ("r", "r_line", "r_trip", "city_current")),
        ("temporary view", "r_trip"),
        ("grant", "city_current"),
    ],
)
def test_an_analyst_cannot_keep_a_release(
    released: str, monkeypatch: pytest.MonkeyPatch, how: str, table: str
) -> None:
    """Whatever one of them has open, all of them lose it at once; it is dropped when that is closed."""
    monkeypatch.setattr(granting, "LOCK_TIMEOUT", "100ms")
    read = f"SELECT * FROM freqdp_release.{table} LIMIT 1".encode()
    with _analyst(released) as keeper, _analyst(released) as other:
        other.execute(read)
        if how == "transaction":
            keeper.execute("BEGIN")
            keeper.execute(read)
        elif how == "temporary view":
            keeper.execute(f"CREATE TEMP VIEW mine AS TABLE freqdp_release.{table}".encode())
        else:
            query(released, f"GRANT SELECT ON freqdp_release.{table} TO PUBLIC")
        done = withdraw(released, "r")
        assert (done["waits_for"] is None) == (how == "grant"), done
        expected = psycopg.errors.InsufficientPrivilege
        if how == "grant":
            assert _state(released) == ("withdrawn", [])
            expected = psycopg.errors.UndefinedTable
        else:
            assert _state(released)[0] == "withdrawing"
        with pytest.raises(expected):
            other.execute(read)
        if how == "temporary view":
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                keeper.execute("SELECT * FROM mine")
    # the next release, of anything, sweeps it
    anonymize(released, "city", "lg", "--signature", "4", "--as", "next")
    assert _state(released) == ("withdrawn", [])
    with _analyst(released) as reader:
        reader.execute("SELECT * FROM freqdp_release.city_current LIMIT 1")


def test_a_worker_drops_what_was_left(released: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(granting, "LOCK_TIMEOUT", "100ms")
    with _analyst(released) as keeper:
        keeper.execute("BEGIN")
        keeper.execute("SELECT * FROM freqdp_release.r LIMIT 1")
        assert withdraw(released, "r")["waits_for"]
        freqdp(released, "worker", "--once").succeeded()
        assert _state(released)[0] == "withdrawing"
    freqdp(released, "worker", "--once").succeeded()
    assert _state(released) == ("withdrawn", [])


def test_the_newest_is_shown_again_after_a_withdrawal(
    released: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rights that were given on the view of the newest stay, if nobody is in the way."""
    monkeypatch.setattr(granting, "LOCK_TIMEOUT", "100ms")
    anonymize(released, "city", "lg", "--signature", "4", "--as", "s")
    query(released, "GRANT SELECT ON freqdp_release.city_current TO freqdp_auditor")
    read = "SELECT count(*) > 0 FROM freqdp_release.city_current"
    withdraw(released, "s")
    auditor = as_role(released, "auditor")
    with psycopg.connect(auditor) as connection:
        assert connection.execute(read.encode()).fetchone() == (True,)
    anonymize(released, "city", "lg", "--signature", "4", "--as", "s")
    with _analyst(released) as keeper, _analyst(released) as other:
        keeper.execute("BEGIN")
        keeper.execute("SELECT * FROM freqdp_release.city_current LIMIT 1")
        withdraw(released, "s")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            other.execute(read.encode())
        keeper.execute("ROLLBACK")
        withdraw(released, "s")
        other.execute(read.encode())


def test_withdrawn_release_leaves_its_record(released: str) -> None:
    key = value(released, "SELECT min(object_id) FROM demo.city")
    (before,) = freqdp(released, "release", "find", "--object", key).succeeded()
    assert before == {
        "dataset": "city",
        "build_id": 1,
        "trajectory_id": before["trajectory_id"],
        "release": "r",
        "state": "published",
        "released_id": before["released_id"],
        "note": None,
    }
    assert query(
        released,
        "SELECT count(*) > 0 FROM freqdp_release.r WHERE trajectory_id = %s",
        before["released_id"],
    ) == [(True,)]
    withdraw(released, "r")
    assert (
        query(
            released,
            "SELECT relname FROM pg_class WHERE relnamespace = 'freqdp_release'::regnamespace "
            "AND relname LIKE 'r%%'",
        )
        == []
    )
    assert query(released, "SELECT * FROM freqdp_release.catalog") == []
    (record,) = freqdp(released, "release", "list").succeeded()
    assert (record["name"], record["state"]) == ("r", "withdrawn")
    assert record["withdrawn_at"]
    assert Decimal(freqdp(released, "budget", "city").succeeded()["spent"]) == 1
    (after,) = freqdp(released, "release", "find", "--object", key).succeeded()
    assert after["state"] == "withdrawn"
    freqdp(released, "release", "verify", "r").refused("'r'", "withdrawn")
    freqdp(released, "release", "withdraw", "r").refused("'r'", "withdrawn")
    # the name is free again; the same request is drawn anew, and paid for
    again = anonymize(released, "city", "lg", "--as", "r")
    assert (again["existed"], again["version"]) == (False, 2)
    assert Decimal(freqdp(released, "budget", "city").succeeded()["spent"]) == 2


def test_find_says_what_an_id_is_worth_in_each_kind(released: str) -> None:
    key = value(released, "SELECT min(object_id) FROM demo.city")
    region = ("--region", "4.26,50.79,4.44,50.91", "--period", "2024-03-03/2024-03-07")
    freqdp(released, "dataset", "set", "city", *region).succeeded()
    for method, words, has_id in (
        ("strict", "nobody's trips", False),
        ("swap", "swapped: a trajectory of this id begins with it", True),
        ("cut", "in pieces", False),
        ("glove", "grouped", True),
        ("w4m", None, True),
    ):
        name = f"by_{method}"
        more = ("--size", "50") if method == "strict" else ("--hold",)
        anonymize(released, "city", method, "--as", name, *more)
        found = freqdp(released, "release", "find", "--object", key).succeeded()
        (row,) = (f for f in found if f["release"] == name)
        assert (row["released_id"] is not None) == has_id, row
        assert row["note"] is None if words is None else words in row["note"], row
        if method == "swap":
            (first,) = query(
                released,
                "SELECT count(*) FROM freqdp_release.by_swap WHERE trajectory_id = %s",
                row["released_id"],
            )
            assert first[0] > 0


def test_find_tells_builds_and_releases(released: str) -> None:
    """Every place where a person is: for erasure requests."""
    key = value(released, "SELECT max(object_id) FROM demo.city")
    query(released, "DELETE FROM demo.city WHERE object_id = %s", key)
    freqdp(released, "dataset", "build", "city").succeeded()
    anonymize(released, "city", "lg", "--as", "without")
    found = freqdp(released, "release", "find", "--object", key).succeeded()
    assert [(f["build_id"], f["release"]) for f in found] == [(1, "r")]
    other = value(released, "SELECT min(object_id) FROM demo.city")
    found = freqdp(released, "release", "find", "--object", other).succeeded()
    assert [(f["build_id"], f["release"]) for f in found] == [(1, "r"), (2, "without")]
    withdraw(released, "r")
    assert freqdp(released, "release", "find", "--object", key).succeeded() == []
    assert freqdp(released, "release", "find", "--object", "' OR true --").succeeded() == []


def test_same_request_is_answered_once(released: str) -> None:
    spent = "SELECT spent FROM freqdp.budget"
    assert value(released, spent) == 1
    for options in ((), ("--epsilon", "1.0"), ("--epsilon-global", ".5", "--epsilon-local", "0.50"),
                    ("--spread", "500m", "--method", "lg"), ("--as", "another")):  # fmt: skip
        answer = anonymize(released, "city", "lg", *options)
        assert (answer["name"], answer["existed"]) == ("r", True)
        assert answer["verified"] is None
        assert answer["name_not_used"] == ("another" if "--as" in options else None)
    # an equal build is the same data
    freqdp(released, "dataset", "build", "city").succeeded()
    assert anonymize(released, "city", "lg")["existed"] is True
    assert value(released, spent) == 1
    fresh = anonymize(released, "city", "lg", "--new-draw")
    assert (fresh["name"], fresh["existed"], fresh["version"]) == ("city_1", False, 2)
    assert value(released, spent) == 2
    # what differs is another request
    other = anonymize(released, "city", "lg", "--signature", "9")
    assert (other["name"], other["existed"]) == ("city_2", False)
    assert value(released, spent) == 3


def test_curators_and_analysts_get_the_same_names_and_numbers(released: str) -> None:
    analyst = as_role(released, "analyst")
    for command in (("release", "show", "r"), ("release", "list")):
        curators, analysts = (freqdp(url, *command).succeeded() for url in (released, analyst))
        if command[1] == "list":
            (curators,), (analysts,) = curators, analysts
        assert curators["dataset"] == analysts["dataset"] == "city"
        assert curators["dataset_id"] == 1
        assert curators["parameters"] == analysts["parameters"]
    plan = freqdp(released, "plan", "city", "--method", "lg").succeeded()
    assert plan["parameters"] == curators["parameters"]
    assert "did you mean r?" in freqdp(analyst, "release", "show", "rr").refused()["remedy"]


@pytest.mark.parametrize("method", ["sc", "rsc"])
def test_signature_closure(city: str, method: str) -> None:
    """Signatures are gone (rsc: with what lies near), nothing is spent, nothing is promised."""
    options = ("--radius", "700") if method == "rsc" else ()
    answer = anonymize(city, "city", method, *options)
    name = answer["name"]
    verify(city, name)
    assert answer["guarantee"]["noise"] == "none"
    assert answer["grantable"] is False
    assert answer["steps"][0]["counts"]["insertions"] == 0
    assert query(city, "SELECT kind, amount FROM freqdp.spend ORDER BY entry")[1:] == [
        ("spend", Decimal(0))
    ]
    # a sample of D is released unless its object has a signature place there (or within 700 m)
    near = "(l.x_m - s.x_m) ^ 2 + (l.y_m - s.y_m) ^ 2 <= 700 ^ 2" if options else "FALSE"
    kept = query(
        city,
        "WITH signature AS (SELECT trajectory_id, location_id, x_m, y_m FROM freqdp.signature "
        "JOIN freqdp.location USING (location_id) WHERE rank <= 10) "
        "SELECT released_id, o.at, l.geom::text FROM freqdp.sample o "
        "JOIN freqdp.location l USING (location_id) "
        "JOIN freqdp.release_key USING (trajectory_id) "
        "WHERE NOT EXISTS (SELECT FROM signature s WHERE s.trajectory_id = o.trajectory_id "
        f"AND (s.location_id = o.location_id OR {near})) ORDER BY 1, 2",
    )
    table = query(
        city,
        f"SELECT trajectory_id, sampled_at, geom::text FROM freqdp_release.{name} ORDER BY 1, 2",
    )
    assert len(table) > 0
    assert table == kept
    analyst = "SELECT has_table_privilege('freqdp_analyst', %s, 'SELECT')"
    assert value(city, analyst, f"freqdp_release.{name}") is False


def test_it_is_said_who_is_gone_and_how_much_is_left(city: str) -> None:
    with freqdp_db.connect(city) as db:
        made = db.anonymize("city", "rsc", radius=2500)
        shown = db.release(made.name).lines()
        both = db.release(db.anonymize("city", "lg", epsilon=1).name).lines()
    ((rows, there, objects, samples),) = query(
        city,
        f"SELECT count(*), count(DISTINCT trajectory_id), b.trajectories, b.samples "
        f"FROM freqdp_release.{made.name}, freqdp.build b GROUP BY 3, 4",
    )
    said = made.lines()
    assert there < objects
    assert f"{rows:,} rows of {there:,} trajectories" in said[0]
    assert f"Warning: {objects - there:,} of the {objects:,} objects have no sample left." in said
    assert f"Of the original samples {rows / samples:.1%} are left." in shown
    (what,) = [line for line in shown if line.startswith("What it is")]
    assert "put in" not in what.replace("none were put in", "") and "some" not in what
    # a step that deletes may take what one before it put in
    assert any(line.startswith("Of the original samples at least ") for line in both)


def test_paged_search_gives_the_same_release(city: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("anonymize", "city", "--method", "gl", "--seed", "7", "--new-draw")
    pages: list[Any] = []
    read = inputs.cell_segments

    def counted(connection: Any, build_id: int, cells: Any) -> Any:
        pages.append(cells)
        return read(connection, build_id, cells)

    monkeypatch.setattr(inputs, "cell_segments", counted)
    freqdp(city, *asked, "--as", "at_once").succeeded()
    assert pages == [None], "all cells, once"
    pages.clear()
    monkeypatch.setattr(stored, "INDEX_BYTES", 10**6)
    monkeypatch.setattr(stored, "_LEAST_ROWS", 1000)
    freqdp(city, *asked, "--as", "by_pages", "--memory", "1MB").succeeded()
    assert len(pages) > 1 and all(cells is not None for cells in pages)
    for table in ("", "_line"):
        assert same_rows(city, f"freqdp_release.at_once{table}", f"freqdp_release.by_pages{table}")


def test_what_was_dropped_by_hand_can_be_withdrawn(released: str) -> None:
    query(released, "DROP VIEW freqdp_release.city_current, freqdp_release.city_current_trip")
    query(released, "DROP TABLE freqdp_release.r_trip")
    query(released, "DROP TABLE freqdp_release.r")
    answer = freqdp(released, "release", "verify", "r")
    assert answer.code == 3 and "is not there" in answer.err
    lost = freqdp(released, "anonymize", "city", "--method", "lg").refused(
        "'r'", "freqdp_release.r is not there"
    )
    assert "freqdp release withdraw r" in lost["remedy"]
    doctor = freqdp(released, "doctor")
    assert doctor.code == 1 and "freqdp_release.r is not there" in doctor.out
    withdraw(released, "r")
    assert value(released, "SELECT count(*) FROM freqdp_release.catalog") == 0
    anonymize(released, "city", "lg", "--new-draw", "--as", "r")
