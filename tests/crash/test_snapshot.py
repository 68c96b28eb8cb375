"""What others may do while a build reads: everything. It sees one snapshot and locks nobody out."""

from __future__ import annotations

import pytest
from harness import Driver
from world import fingerprint, freqdp, query


@pytest.mark.parametrize("moment", ["reading: rows counted", "reading: some rows"])
def test_writers_go_on_and_are_not_seen(city: str, driver: Driver, moment: str) -> None:
    first = freqdp(city, "dataset", "show", "city").succeeded()["build"]
    run = driver.start(city, "dataset", "build", "city", stop=moment)
    run.reach()
    assert query(
        city,
        "SELECT DISTINCT mode FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
        "WHERE a.application_name = 'freqdp dataset build' AND l.relation = 'demo.city'::regclass "
        "AND a.datname = current_database()",
    ) == [("AccessShareLock",)]
    assert query(
        city,
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'freqdp dataset build' "
        "AND datname = current_database()",
    ) > [(1,)]
    query(city, "UPDATE demo.city SET geom = ST_Translate(geom, 0.01, 0)")
    query(city, "DELETE FROM demo.city WHERE object_id = (SELECT min(object_id) FROM demo.city)")
    query(city, "INSERT INTO demo.city SELECT * FROM demo.city LIMIT 100")
    query(city, "VACUUM ANALYZE demo.city")
    query(city, "CREATE INDEX ON demo.city (object_id)")
    written = fingerprint(city, "demo.city")
    run.go_on()
    assert run.end() == 0, run.err
    # the snapshot is the city as it was; what was written since is for the next build
    assert run.document["fingerprint"] == first["fingerprint"]
    assert run.document["rows"] == first["rows"]
    assert fingerprint(city, "demo.city") == written
    assert freqdp(city, "dataset", "build", "city").succeeded()["trajectories"] == 39
