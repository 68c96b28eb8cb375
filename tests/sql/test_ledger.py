"""The ledger: what it refuses, and what its chain of hashes gives away."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import psycopg
import pytest
from library import build_points, make_points, opened, release
from servers import clone_of, filled_once
from world import freqdp, query, value

from freqdp_db.db.ledger import entry_hash

POINTS = [(f"o{i % 6}", 60.0 * i, 100.0 * (i * 7 % 23), 100.0 * (i * 5 % 11)) for i in range(180)]
REWRITE = """
DO $$
DECLARE e record; before text := '';
BEGIN
    FOR e IN SELECT * FROM freqdp.spend ORDER BY account_id, entry LOOP
        UPDATE freqdp.spend SET previous_hash = before, hash = freqdp.entry_hash(
            e.account_id, e.entry, e.kind, e.amount, e.release_id, e.reason, e.actor, e.at, before)
        WHERE spend_id = e.spend_id RETURNING hash INTO before;
    END LOOP;
END $$
"""


def _spend(url: str) -> None:
    relation = make_points(url, "points", POINTS)
    with opened(url) as database:
        build_points(database, "d", relation, snap="grid:100")
        for number in (1, 2):
            release(database, "d", f"d_{number}", epsilon=str(number), signature=2)


spent_db = filled_once("spent", _spend)
spent = clone_of("spent_db")
"""A source with a budget of 1,000 and two releases; entries 1 to 3."""


def _heads(url: str) -> list[str]:
    return [h for (h,) in query(url, "SELECT hash FROM freqdp.spend ORDER BY entry")]


def _verify(url: str, *more: str) -> Any:
    answer = freqdp(url, "ledger", "verify", *more)
    return (answer.code, answer.document)


def test_raising_is_an_entry_with_who_and_why(spent: str) -> None:
    answer = freqdp(spent, "budget", "d", "--raise", "2.5", "--reason", "the board's decision")
    entry = answer.succeeded()["ledger"][-1]
    assert (entry["entry"], entry["kind"], entry["amount"]) == (4, "grant", "2.5")
    assert entry["reason"] == "the board's decision"
    assert entry["actor"] == value(spent, "SELECT session_user::text")
    assert answer.document["remaining"] == "999.5"
    code, document = _verify(spent)
    assert code == 0 and document["heads"] == 2


TAMPERINGS = [
    "UPDATE freqdp.spend SET amount = 0.5 WHERE entry = 2",
    "UPDATE freqdp.spend SET amount = 2000 WHERE entry = 1",
    "UPDATE freqdp.spend SET kind = 'grant' WHERE entry = 2",
    "UPDATE freqdp.spend SET reason = 'another' WHERE entry = 3",
    "UPDATE freqdp.spend SET actor = 'somebody' WHERE entry = 1",
    "UPDATE freqdp.spend SET at = at + interval '1 us' WHERE entry = 3",
    "UPDATE freqdp.spend SET release_id = NULL WHERE entry = 2",
    "UPDATE freqdp.spend SET hash = md5('x') WHERE entry = 3",
    "UPDATE freqdp.spend SET previous_hash = '' WHERE entry = 2",
    "UPDATE freqdp.spend SET entry = 9 WHERE entry = 3",
    "DELETE FROM freqdp.spend WHERE entry = 1",
    "DELETE FROM freqdp.spend WHERE entry = 2",
    # cut off: the catalogue has published the head
    "DELETE FROM freqdp.spend WHERE entry = 3",
    "DELETE FROM freqdp.spend WHERE entry > 1",
    "DELETE FROM freqdp.spend",
    # rewritten from some entry on, hashes and all
    "UPDATE freqdp.spend SET amount = 0.5 WHERE entry = 2;" + REWRITE,
    "DELETE FROM freqdp.spend WHERE entry = 2; UPDATE freqdp.spend SET entry = 2 "
    "WHERE entry = 3;" + REWRITE,
]


def test_tampering_is_found(spent: str) -> None:
    query(spent, "CREATE TABLE world.kept AS SELECT * FROM freqdp.spend")
    for tampering in TAMPERINGS:
        assert _verify(spent)[0] == 0
        query(spent, tampering)
        code, document = _verify(spent)
        assert (code, document["error"]) == (3, "VerificationFailed"), tampering
        assert "entr" in document["message"] or "head" in document["message"]
        query(
            spent,
            "TRUNCATE freqdp.spend; "
            "INSERT INTO freqdp.spend OVERRIDING SYSTEM VALUE SELECT * FROM world.kept",
        )


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE freqdp.spend SET amount = 0.5 WHERE entry = 2;" + REWRITE,
        "DELETE FROM freqdp.spend WHERE entry = 3",
    ],
)
def test_a_head_kept_elsewhere_finds_what_was_rewritten_everywhere(
    spent: str, tampering: str
) -> None:
    """Ledger and catalogue changed together are whole in themselves."""
    first, second = _heads(spent)[1:]
    assert _verify(spent, "--head", second)[0] == 0
    query(spent, tampering)
    query(
        spent,
        "UPDATE freqdp_release.catalog c SET ledger_head = s.hash FROM freqdp.spend s "
        "JOIN freqdp.release r USING (release_id) WHERE r.name = c.name",
    )
    query(
        spent,
        "DELETE FROM freqdp_release.catalog "
        "WHERE NOT EXISTS (SELECT 1 FROM freqdp.spend s WHERE s.hash = ledger_head)",
    )
    assert _verify(spent)[0] == 0
    code, document = _verify(spent, "--head", second)
    assert code == 3 and second in document["message"]
    if "DELETE" in tampering:
        # what came before the cut is still there
        assert _verify(spent, "--head", first)[0] == 0


@pytest.mark.parametrize("head", ["abc", "", "g" * 64, "a" * 63])
def test_what_is_no_head_is_bad_input_and_not_a_broken_ledger(spent: str, head: str) -> None:
    freqdp(spent, "ledger", "verify", "--head", head).refused("--head", repr(head), "64")
    assert _verify(spent, "--head", _heads(spent)[1].upper())[0] == 0
    assert _verify(spent, "--head", "0" * 64)[0] == 3


def test_refusal_says_by_which_releases(spent: str) -> None:
    with opened(spent) as database:
        for number in range(3, 12):
            release(database, "d", f"d_{number}", epsilon=str(number), signature=2)
    refusal = freqdp(spent, "anonymize", "d", "--method", "lg", "--epsilon", "1000").refused(
        "spent 66 of 1000, remaining 934, short by 66; spent by d_11 (11), d_10 (10), d_9 (9)"
    )
    assert refusal["message"].endswith("d_4 (4) and 3 before")
    assert len(_heads(spent)) == 12


def test_the_command_that_raises_a_budget_takes_epsilon(spent: str) -> None:
    """Also where the ledger keeps rho; so much of it covers what is missing, and little more."""
    call = "SELECT freqdp.raise_command(%s, %s, %s)"
    assert value(spent, call, "my d'ata", "occurrence", Decimal("0.50")).startswith(
        """`freqdp budget 'my d'"'"'ata' --unit occurrence --raise 0.5 --reason"""
    )
    for short in ("0.000001", "0.027", "1", "40"):
        command = value(spent, call, "d", "person", Decimal(short)).split()
        epsilon = Decimal(command[command.index("--raise") + 1])
        rho = "SELECT freqdp.rho_of(%s, 0.000001)"
        assert value(spent, rho, epsilon) >= Decimal(short)
        less = epsilon - Decimal("0.01")
        assert less == 0 or value(spent, rho, less) < Decimal(short)


def test_a_record_cannot_be_booked_on_the_budget_of_another(spent: str) -> None:
    """Epsilon and budget follow from the record; a build of another dataset is no release of it."""
    query(spent, "WITH other AS (INSERT INTO freqdp.population DEFAULT VALUES RETURNING population_id) "
                 "INSERT INTO freqdp.account (population_id, source_schema, source_relation, "
                 "object_column, unit) SELECT population_id, 'a', 'b', 'c', 'occurrence' FROM other"
    )  # fmt: skip
    query(
        spent,
        "INSERT INTO freqdp.dataset (name, account_id, source_schema, source_relation, "
        "object_column, time_column, geom_column, source_srid, snap, timezone) "
        "SELECT 'other', max(account_id), 'a', 'b', 'c', 't', 'g', 4326, 'exact', 'UTC' "
        "FROM freqdp.account",
    )
    query(
        spent,
        "INSERT INTO freqdp.release (name, dataset_id, build_id, method, kind, parameters, "
        "grantable, request_hash, state, software, guarantee) "
        "SELECT 'x', (SELECT max(dataset_id) FROM freqdp.dataset), build_id, method, kind, "
        "parameters, true, 'h', 'running', '0', '{}' FROM freqdp.release LIMIT 1",
    )
    with psycopg.connect(spent) as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute(
            "SELECT freqdp.book_spend(release_id, 'x') FROM freqdp.release WHERE name = 'x'"
        )
    assert refused.value.sqlstate == "QF001" and "another budget" in str(refused.value)
    query(spent, "DELETE FROM freqdp.build_source")
    with psycopg.connect(spent) as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute(
            "SELECT freqdp.book_spend(release_id, 'x') FROM freqdp.release WHERE name = 'x'"
        )
    assert refused.value.sqlstate == "QF002"


def test_the_chain_is_not_checked_by_a_function_of_the_database(spent: str) -> None:
    """Whoever owns the schema can replace it, and change an entry."""
    query(
        spent,
        "CREATE OR REPLACE FUNCTION freqdp.entry_hash(account int, entry int, kind text, amount numeric, "
        "release int, reason text, actor text, at timestamptz, previous_hash text) RETURNS text "
        "LANGUAGE sql STABLE AS 'SELECT s.hash FROM freqdp.spend s WHERE s.account_id = $1 "
        "AND s.entry = $2'",
    )
    assert _verify(spent)[0] == 0
    query(spent, "UPDATE freqdp.spend SET amount = 0.5 WHERE entry = 2")
    code, document = _verify(spent)
    assert (code, document["error"]) == (3, "VerificationFailed")
    assert "entry 2 was changed" in document["message"]


@pytest.mark.parametrize(
    ("amount", "reason", "at"),
    [
        ("100", "a", "2024-01-01 00:00:00.000001+00"),
        ("0.00", "", "1969-12-31 23:59:59.999999+00"),
        ("1e-20", "a|b", "2024-02-29 12:00+05:30"),
        (
            "12345678901234567890123456789.1234567890123456789000",
            "déjà 🚲 vu",
            "9999-12-31 00:00+00",
        ),
        ("NaN", "\\ ''\n", "0001-01-01 00:00+00"),
        ("Infinity", "x", "2024-01-01 00:00+00"),
    ],
)
def test_hashes_are_what_the_database_writes(
    database_url: str, amount: str, reason: str, at: str
) -> None:
    with psycopg.connect(database_url) as connection:
        for release_id in (None, 7):
            row = connection.execute(
                "SELECT freqdp.entry_hash(1, 2, 'spend', %(amount)s, %(release)s, %(reason)s, 'me', "
                "%(at)s, 'ab'), %(amount)s::numeric, extract(epoch FROM %(at)s::timestamptz)::text",
                {"amount": amount, "release": release_id, "reason": reason, "at": at},
            ).fetchone()
            assert row is not None
            assert row[0] == entry_hash({
                "account_id": 1, "entry": 2, "kind": "spend", "amount": row[1], "release_id": release_id,
                "reason": reason, "actor": "me", "at": row[2], "previous_hash": "ab", "begins": None,
                "ends": None,
            })  # fmt: skip


# A release by hand, as runners could once insert it: method, parameters, and what was booked for it.
BY_HAND: list[tuple[str, str, str | None]] = [
    ("lg", "{}", "0"),
    ("lg", '{"signature": 2}', "0"),
    ("lg", '{"epsilon_local": 0.5, "signature": 2}', "0.5"),
    ("lg", '{"epsilon_local": 5, "epsilon_global": 5, "signature": 2, "spread": 250}', "1"),
    ("lg", '{"epsilon_local": 5, "epsilon_global": 5, "signature": 2, "spread": 250}', None),
    ("strict", "{}", "0"),
    ("strict", '{"epsilon": 4, "accounting": "zcdp", "delta": 0.000001}', "0.3111"),
]


@pytest.mark.parametrize(("method", "parameters", "booked"), BY_HAND)
def test_what_is_not_booked_is_not_drawn(
    spent: str, method: str, parameters: str, booked: str | None
) -> None:
    query(
        spent,
        "INSERT INTO freqdp.release (name, dataset_id, build_id, method, kind, parameters, grantable, "
        "request_hash, state, software, guarantee) SELECT 'x', dataset_id, build_id, %s, 'edited', "
        "%s::jsonb, true, 'h', 'running', software, '{}' FROM freqdp.release LIMIT 1",
        method, parameters,
    )  # fmt: skip
    if booked is not None:
        query(
            spent,
            "SELECT freqdp.append_entry(1, 'spend', %s::numeric, release_id, 'x') FROM freqdp.release "
            "WHERE name = 'x'",
            booked,
        )
    drawn = query(spent, "SELECT count(*) FROM freqdp.release_step")
    freqdp(spent, "release", "resume", "x").refused()
    assert query(spent, "SELECT count(*) FROM freqdp.release_step") == drawn
    freqdp(spent, "ledger", "verify").succeeded()


def test_a_record_is_complete_and_booked_or_not_made(spent: str) -> None:
    complete = value(spent, "SELECT freqdp.request_parameters('lg', '{\"epsilon\": 1}')::text")
    call = (
        "SELECT freqdp.record_release(%s, (SELECT max(build_id) FROM freqdp.build), %s, %s::jsonb, "
        "true, false, '0', (SELECT guarantee FROM freqdp.release WHERE name = 'd_1'))"
    )
    before = query(spent, "SELECT count(*) FROM freqdp.release"), _heads(spent)
    for name, method, parameters, state in [
        ("x", "lg", "{}", "QF001"),
        ("x", "lg", '{"epsilon": 1}', "QF001"),
        ("x", "lg", complete.replace("0.5", "0.50", 1), "QF001"),
        ("x", "lg", complete.replace("0.5", "0", 1), "QF001"),
        ("x", "strict", '{"region": "4,50,5,51"}', "QF001"),
        ("x", "nothing", "{}", "QF001"),
        ("x_line", "lg", complete, "QF001"),
        ("d_1", "lg", complete, "23505"),
        ("x", "lg", complete.replace("0.5", "999", 2), "QF003"),
    ]:
        with psycopg.connect(spent) as connection, pytest.raises(psycopg.Error) as refused:
            connection.execute(call.encode(), [name, method, parameters])
        assert refused.value.sqlstate == state, (name, method, parameters)
    with psycopg.connect(spent) as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute(call.encode(), ["x", "lg", complete])
    assert refused.value.sqlstate == "QF001"
    assert (query(spent, "SELECT count(*) FROM freqdp.release"), _heads(spent)) == before
    query(spent, call, "x", "lg", complete)
    assert query(
        spent, "SELECT s.amount, r.requested_by = session_user, r.state FROM freqdp.release r "
        "JOIN freqdp.spend s USING (release_id) WHERE r.name = 'x'"
    ) == [(Decimal(1), True, "running")]  # fmt: skip
    freqdp(spent, "release", "resume", "x").succeeded()


def test_a_pure_epsilon_is_booked_exactly(spent: str) -> None:
    for epsilon in ("0.333333333", "1", "0.01", "19.999999999", "0.010000001"):
        given = f'{{"epsilon": {epsilon}}}'
        booked = value(spent, "SELECT amount FROM freqdp.spend_of('adatrace', %s::jsonb)", given)
        assert Fraction(booked) == Fraction(epsilon) ** 2 / 2
