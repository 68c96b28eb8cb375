"""What must hold after every kill, and after the run that follows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from world import fingerprint, freqdp, query, value, verify

_PARTS = "trajectory|location|sample|segment|grid_cell"


@dataclass(frozen=True)
class Scene:
    """What a person can see of a database, and what no run may touch."""

    source: tuple[Any, ...]
    current_build: int
    views: list[tuple[Any, ...]]
    released: list[tuple[Any, ...]]
    catalog: list[tuple[Any, ...]]


def scene(url: str) -> Scene:
    return Scene(
        source=fingerprint(url, "demo.city"),
        current_build=value(url, "SELECT current_build FROM freqdp.dataset"),
        views=query(
            url,
            "SELECT count(*), md5(string_agg(v::text, '|' ORDER BY v.trajectory_id, v.location_id)) "
            "FROM freqdp.location_weight v",
        ),
        released=query(
            url,
            "SELECT relname FROM pg_class WHERE relnamespace = 'freqdp_release'::regnamespace "
            "AND relkind IN ('r', 'v') AND relname NOT IN ('catalog', 'series') "
            "AND relname !~ '_current(_|$)' ORDER BY 1",
        ),
        catalog=query(url, "SELECT name FROM freqdp_release.catalog ORDER BY 1"),
    )


def require_whole(url: str, before: Scene) -> Scene:
    """The source is as it was, what is published is complete, and what is current is whole."""
    now = scene(url)
    assert now.source == before.source
    expected = query(url, "SELECT unnest(relations) FROM freqdp_release.catalog ORDER BY 1")
    assert now.released == expected, "the release schema and the catalogue disagree"
    for (name,) in now.catalog:
        assert verify(url, name)["verified"] is True
    counted = query(
        url,
        "SELECT b.samples, b.trajectories, b.locations, b.segments, "
        "(SELECT count(*) FROM freqdp.sample p WHERE p.build_id = b.build_id), "
        "(SELECT count(*) FROM freqdp.trajectory p WHERE p.build_id = b.build_id), "
        "(SELECT count(*) FROM freqdp.location p WHERE p.build_id = b.build_id), "
        "(SELECT count(*) FROM freqdp.segment p WHERE p.build_id = b.build_id) "
        "FROM freqdp.build b WHERE b.dropped_at IS NULL",
    )
    for row in counted:
        assert row[:4] == row[4:]
    return now


def leftovers(url: str) -> list[str]:
    """Tables that a dead run left behind: staged releases, and parts of a build not attached."""
    return [
        name
        for (name,) in query(
            url,
            "SELECT relname FROM pg_class WHERE relnamespace = 'freqdp'::regnamespace "
            "AND relkind = 'r' AND (relname LIKE 'staging%%' "
            f"OR relname ~ '^({_PARTS})_[0-9]+$' AND NOT relispartition) ORDER BY 1",
        )
    ]


def spends(url: str) -> list[tuple[Any, ...]]:
    return query(
        url,
        "SELECT release_id, amount, hash FROM freqdp.spend WHERE kind = 'spend' ORDER BY entry",
    )


def draws(url: str) -> dict[str, tuple[Any, ...]]:
    """The committed draws, step by step, and the key: rows that no later run may change."""
    found: dict[str, tuple[Any, ...]] = {}
    for table in ("release_key", "tf_target", "pf_target"):
        step = "0" if table == "release_key" else "t.step"
        for number, *rest in query(
            url,
            f"SELECT {step}, count(*), md5(string_agg(t::text, '|' ORDER BY t::text)) "
            f"FROM freqdp.{table} t GROUP BY 1",
        ):
            found[f"{table} {number}"] = tuple(rest)
    for number, *rest in query(
        url,
        "SELECT step, count(*), md5(string_agg(t::text, '|' ORDER BY t::text)) "
        "FROM freqdp.step_column t WHERE part = 'draw' GROUP BY 1",
    ):
        found[f"step_column {number}"] = tuple(rest)
    return found


def resumed(url: str, *command: str) -> Any:
    """The command goes on with its release: one spend, the same draws, nothing left over."""
    committed, (spent,) = draws(url), spends(url)
    answer = freqdp(url, *command).succeeded()
    assert (answer["state"], answer["resumed"]) == ("published", True)
    assert answer["verified"]["rows"] == answer["rows"] > 0
    assert spends(url) == [spent]
    now = draws(url)
    assert {name: now[name] for name in committed} == committed
    assert leftovers(url) == []
    return answer


def sessions(url: str) -> list[tuple[Any, ...]]:
    """Sessions of freqdp commands on the server."""
    return query(
        url,
        "SELECT pid, state, query FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name LIKE 'freqdp %%' ORDER BY pid",
    )
