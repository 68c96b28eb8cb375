"""Fifty requests at once: the ledger gives out what there is, and not a bit more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from threading import Barrier
from typing import Any

import pytest
from library import build_points, make_points, opened
from pooler import PROGRAM, pooled
from servers import clone_of, filled_once
from world import query

from freqdp_db.db import ledger
from freqdp_db.db.datasets import find_dataset
from freqdp_db.errors import BudgetExceeded
from freqdp_db.progress import Progress
from freqdp_db.release.budgets import DEFAULT_EPSILON, DELTA, open_for_persons
from freqdp_db.release.pipeline import Outcome, anonymize
from freqdp_db.release.request import JobRequest, Request

REQUESTS = 50
AFFORDABLE = 7
POINTS = [(f"o{i % 6}", 60.0 * i, 100.0 * (i * 7 % 23), 100.0 * (i * 5 % 11)) for i in range(180)]


def _build(url: str) -> None:
    with opened(url) as database:
        build_points(database, "d", make_points(url, "points", POINTS), snap="grid:100")


race_db = filled_once("race", _build)
source = clone_of("race_db")
"""A database with a small dataset whose budget is 1,000: enough for one request."""


@pytest.fixture(
    params=[
        "plain",
        pytest.param(
            "pgbouncer",
            marks=pytest.mark.skipif(PROGRAM is None, reason="pgbouncer is not installed"),
        ),
    ]
)
def url(source: str, request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "plain":
        yield source
    else:
        with pooled(source) as through:
            yield through


def _all_at_once(url: str, *, new_draw: bool) -> list[Outcome | BudgetExceeded]:
    start = Barrier(REQUESTS)
    asked = JobRequest(Request.parse("lg", epsilon="1000", signature=2), new_draw=new_draw)

    def ask(_: int) -> Outcome | BudgetExceeded:
        with opened(url) as database:
            dataset = find_dataset(database, "d")
            start.wait()
            try:
                return anonymize(database, dataset, asked, Progress())
            except BudgetExceeded as refusal:
                return refusal

    with ThreadPoolExecutor(REQUESTS) as pool:
        return list(pool.map(ask, range(REQUESTS)))


def _spends(url: str) -> list[tuple[Any, ...]]:
    return query(
        url,
        "SELECT s.entry, s.amount, r.name, r.state FROM freqdp.spend s "
        "JOIN freqdp.release r USING (release_id) ORDER BY s.entry",
    )


def test_new_draws_race_for_a_budget_of_seven(source: str, url: str) -> None:
    with opened(source) as database:
        account = find_dataset(database, "d").account_id
        with database.begin() as connection:
            ledger.grant_budget(connection, account, Decimal(6500), "for seven requests and a half")
    answers = _all_at_once(url, new_draw=True)
    kinds = Counter(type(answer) for answer in answers)
    assert kinds == {Outcome: AFFORDABLE, BudgetExceeded: REQUESTS - AFFORDABLE}
    names = {f"d_{n}" for n in range(1, AFFORDABLE + 1)}
    assert {a.release.name for a in answers if isinstance(a, Outcome)} == names
    for answer in answers:
        if isinstance(answer, BudgetExceeded):
            words = "requested 1000, spent 7000 of 7500, remaining 500, short by 500; spent by d_"
            assert words in answer.message
            assert all(f"{name} (1000)" in answer.message for name in names)
            assert "freqdp budget" in (answer.remedy or "")
    spends = _spends(source)
    assert [(s[0], s[1], s[3]) for s in spends] == [
        (entry, 1000, "published") for entry in range(3, 3 + AFFORDABLE)
    ]
    with opened(source) as database:
        assert ledger.chain_faults(database) == []
        assert ledger.find_budget(database, account).remaining == 500
        heads = ledger.published_heads(database)
        assert len(heads) == AFFORDABLE and ledger.missing_heads(database, heads) == []


def test_equal_requests_are_one_release(source: str, url: str) -> None:
    answers = _all_at_once(url, new_draw=False)
    assert all(isinstance(answer, Outcome) for answer in answers), answers
    outcomes = [answer for answer in answers if isinstance(answer, Outcome)]
    assert {(a.release.name, a.release.state) for a in outcomes} == {("d_1", "published")}
    # one did the work; the others joined it, or came when it was done
    assert Counter(a.existed for a in outcomes) == {True: REQUESTS - 1, False: 1}
    assert [s[1:] for s in _spends(source)] == [(1000, "d_1", "published")]
    with opened(source) as database:
        assert ledger.chain_faults(database) == []


def test_the_budget_for_persons_is_opened_once(source: str) -> None:
    """Whoever says the region at the same moment: the opening budget is granted once."""
    start = Barrier(8)

    def say(_: int) -> None:
        with opened(source) as database:
            dataset = replace(find_dataset(database, "d"), region="4,50,5,51")
            start.wait()
            open_for_persons(database, dataset)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(say, range(8)))
    with opened(source) as database:
        account = find_dataset(database, "d").account_id
        (persons,) = (b for b in ledger.budgets(database, account) if b.unit == "person")
        assert persons.entries == 1
        assert persons.granted == ledger.rho_of(database, DEFAULT_EPSILON, DELTA)
