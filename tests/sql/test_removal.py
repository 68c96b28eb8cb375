"""`freqdp uninstall --sql`: everything of ours goes, nothing of anybody else's."""

from __future__ import annotations

from installed import psql
from servers import SharedServer, cloned
from world import anonymize, freqdp, query


def test_it_removes_ours_and_leaves_yours(shared_server: SharedServer, city_db: str) -> None:
    with cloned(shared_server.get(), city_db) as url:
        anonymize(url, "city", "lg", "--epsilon", "1")
        query(url, "CREATE VIEW public.mine AS SELECT count(*) FROM freqdp_release.city_1")
        script = freqdp(url, "uninstall", "--sql").succeeded()["sql"]
        refused = psql(url, script)
        assert refused.returncode != 0 and "public.mine" in refused.stderr
        assert query(url, "SELECT count(*) > 0 FROM freqdp_release.city_1") == [(True,)]
        query(url, "DROP VIEW public.mine")
        rows = query(url, "SELECT count(*) FROM demo.city")
        done = psql(url, script)
        assert done.returncode == 0, done.stderr
        assert query(url, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'freqdp%%'") == []
        assert query(url, "SELECT count(*) FROM demo.city") == rows
        # other databases of the server use the roles
        assert "stays" in done.stderr
        freqdp(url, "init").succeeded()
        freqdp(url, "dataset", "list").succeeded()


def test_without_sql_nothing_happens(database_url: str) -> None:
    freqdp(database_url, "uninstall").refused("--sql")
