"""The disk of the server runs full during a build or a release: nothing half, and work goes on."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from servers import SharedServer, cloned
from world import anonymize, freqdp, query, value, written


@pytest.fixture
def tiny_disk(shared_server: SharedServer, city_db: str) -> Iterator[str]:
    """The city in a database whose new tables go to a disk of half a megabyte."""
    server = shared_server.get()
    if server.data_dir is None or os.geteuid() != 0:
        pytest.skip("needs root and a server on this machine, to mount a small disk for it")
    place = Path(server.data_dir).parent / f"tiny-{uuid.uuid4().hex[:8]}"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    if subprocess.run(mount, check=False).returncode != 0:
        place.rmdir()
        pytest.skip("mounting is not allowed here")
    owner = (Path(server.data_dir) / "cluster").stat()
    os.chown(place, owner.st_uid, owner.st_gid)
    place.chmod(0o700)
    name = sql.Identifier(place.name)
    made = sql.SQL("CREATE TABLESPACE {} LOCATION {}").format(name, sql.Literal(str(place)))
    try:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(made)
            with cloned(server, city_db) as url:
                _keep_tables_in(url, place.name)
                yield url
            connection.execute(sql.SQL("DROP TABLESPACE {}").format(name))
    finally:
        subprocess.run(["umount", str(place)], check=True)
        place.rmdir()


def _keep_tables_in(url: str, tablespace: str) -> None:
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    query(url, f"ALTER DATABASE {name} SET default_tablespace = '{tablespace}'")


def test_while_building(tiny_disk: str) -> None:
    before = written(tiny_disk)
    freqdp(tiny_disk, "dataset", "build", "city").refused("disk", "full")
    after = written(tiny_disk)
    relations = [r for r in after.pop("relations") if not _of_the_build(r[1])]
    assert relations == before.pop("relations")
    assert {name: rows for name, rows in after.items() if not _of_the_build(name)} == before
    _keep_tables_in(tiny_disk, "")
    assert freqdp(tiny_disk, "dataset", "build", "city").succeeded()["trajectories"] == 40
    _require_no_staging(tiny_disk)


def test_while_writing_a_release(tiny_disk: str) -> None:
    freqdp(tiny_disk, "anonymize", "city", "--method", "lg").refused("disk", "full")
    assert query(tiny_disk, "SELECT name FROM freqdp_release.catalog") == []
    _keep_tables_in(tiny_disk, "")
    made = anonymize(tiny_disk, "city", "lg")
    assert (made["resumed"], made["state"]) == (True, "published")
    assert value(tiny_disk, "SELECT count(*) FROM freqdp.spend WHERE kind = 'spend'") == 1
    _require_no_staging(tiny_disk)


def _of_the_build(name: str) -> bool:
    """A private table of the build that failed, which the next one sweeps."""
    return name.startswith("staging_") or name.endswith(
        ("_2", "_2_pkey", "_2_build_id_cell_id_idx")
    )


def _require_no_staging(url: str) -> None:
    relations: list[Any] = written(url)["relations"]
    assert [name for schema, name, _ in relations if name.startswith("staging_")] == []
