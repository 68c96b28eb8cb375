"""Who may do what: the group roles and the statements that grant them their rights."""

from __future__ import annotations

import sqlalchemy as sa
from psycopg import sql

from freqdp_db.storage.connection.engine import Connection, Database, driver
from freqdp_db.storage.schema.objects import quoted
from freqdp_db.storage.schema.tables import Names

ROLES = {
    "admin": "registers datasets, raises budgets, withdraws releases",
    "runner": "builds datasets and publishes releases",
    "analyst": "reads published releases and their catalogue, nothing else",
    "auditor": "reads the ledger and the records of releases",
}

# What runners and administrators do to each table besides reading it. The ledger is written through
# functions only; draws and logs are added and never changed; a dataset stays with its budget, and a
# release with the request that was paid for.
_RUNNER_WRITES = {
    "dataset": ("UPDATE (current_build)",),
    "build": ("INSERT", "UPDATE (dropped_at)"),
    "release": (
        "INSERT",
        "UPDATE (state, version, published_at, withdrawn_at, rows, user_level, timings, held, "
        "approved_at, approved_by)",
    ),
    "release_step": ("INSERT", "UPDATE (counts, digest)"),
    "step_column": ("INSERT",),
    "release_key": ("INSERT",),
    "tf_target": ("INSERT",),
    "pf_target": ("INSERT",),
    "edit_run": ("INSERT",),
    "metric": ("INSERT", "UPDATE", "DELETE"),
}
_ADMIN_WRITES = {
    "account": ("INSERT",),
    "dataset": ("INSERT", "UPDATE (dropped_at, region, period, srid, max_exposure)"),
}
_READ_ALSO = (
    "account", "spend", "budget", "edit", "method", "sql_object", "schema_version", "point_frequency",
    "trajectory_frequency", "location_weight", "signature", "publishable_metric",
)  # fmt: skip
# What the search and its users call, with what these call in turn: they run with the caller's rights.
_SEARCH_ROUTINES = (
    "box_distance", "segment_loss", "cell_path", "cell_children", "cell_segments", "cells_near",
    "search_place", "search_reach", "trajectories_within", "nearest_segments",
    "nearest_trajectories",
)  # fmt: skip


PARTITIONED = ("trajectory", "location", "sample", "segment", "grid_cell")


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def hand_over(connection: Connection, database: Database, relation: sql.Identifier) -> None:
    """Give a new table to the group of runners, so that any of them can look after it."""
    runner = database.settings.role("runner")
    member = connection.execute(
        sa.text(
            "SELECT pg_has_role(current_user, oid, 'MEMBER') FROM pg_roles WHERE rolname = :runner"
        ),
        {"runner": runner},
    ).scalar()
    if member:
        driver(connection).execute(
            sql.SQL("ALTER TABLE {} OWNER TO {}").format(relation, sql.Identifier(runner))
        )


def role_statements(names: Names, existing: set[str]) -> list[str]:
    """Create the group roles that do not exist yet."""
    statements = []
    for kind, what in ROLES.items():
        role = f"{names.schema}_{kind}"
        if role not in existing:
            statements.append(f"CREATE ROLE {quoted(role)} NOLOGIN")
            statements.append(f"COMMENT ON ROLE {quoted(role)} IS 'freqdp: {what}'")
    return statements


def grant_statements(names: Names) -> list[str]:
    """Everything is taken from PUBLIC; each role gets its rights. Repeating it changes nothing."""
    private, release = quoted(names.schema), quoted(names.release_schema)
    role = {kind: quoted(f"{names.schema}_{kind}") for kind in ROLES}
    read = ", ".join(f"{private}.{quoted(t)}" for t in (*_RUNNER_WRITES, *_READ_ALSO))
    search = ", ".join(f"{private}.{quoted(f)}" for f in _SEARCH_ROUTINES)
    workers = f"{role['admin']}, {role['runner']}"
    # Attaching and dropping need the owner, so the runners own what builds and releases are made
    # of, as a group; administrators are runners too, and so is whoever installed this.
    installer = (
        "DO $$ BEGIN IF NOT pg_has_role(current_user, {name}, 'MEMBER') THEN "
        "GRANT {role} TO CURRENT_USER; END IF; END $$"
    ).format(name=literal(f"{names.schema}_runner"), role=role["runner"])
    return [
        f"GRANT {role['runner']} TO {role['admin']}",
        installer,
        f"REVOKE ALL ON SCHEMA {private}, {release} FROM PUBLIC",
        f"REVOKE ALL ON ALL TABLES IN SCHEMA {private} FROM PUBLIC",
        f"REVOKE ALL ON ALL SEQUENCES IN SCHEMA {private} FROM PUBLIC",
        f"REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {private} FROM PUBLIC",
        f"GRANT USAGE, CREATE ON SCHEMA {private}, {release} TO {workers}",
        *(f"ALTER TABLE {private}.{t} OWNER TO {role['runner']}" for t in PARTITIONED),
        f"GRANT SELECT ON {read} TO {workers}",
        *(
            f"GRANT {', '.join(rights)} ON {private}.{table} TO {grantee}"
            for grantee, writes in ((workers, _RUNNER_WRITES), (role["admin"], _ADMIN_WRITES))
            for table, rights in writes.items()
        ),
        f"GRANT USAGE ON SEQUENCE {private}.build_number TO {workers}",
        f"GRANT SELECT, INSERT, DELETE, UPDATE (granted) ON {release}.catalog TO {workers}",
        f"GRANT EXECUTE ON FUNCTION {private}.book_spend(int, text) TO {workers}",
        f"GRANT EXECUTE ON FUNCTION {private}.grant_budget(int, numeric, text) TO {role['admin']}",
        f"GRANT EXECUTE ON FUNCTION {search} TO {workers}",
        f"GRANT USAGE ON SCHEMA {release} TO {role['analyst']}",
        f"GRANT SELECT ON {release}.catalog TO {role['analyst']}",
        f"GRANT USAGE ON SCHEMA {private}, {release} TO {role['auditor']}",
        f"GRANT SELECT ON {private}.account, {private}.spend, {private}.budget, {private}.release, "
        f"{private}.release_step, {private}.dataset, {private}.build, {private}.schema_version, "
        f"{private}.sql_object, {private}.publishable_metric TO {role['auditor']}",
        # what checks the chain
        f"GRANT EXECUTE ON FUNCTION {private}.entry_hash TO {workers}, {role['auditor']}",
        f"GRANT SELECT ON {release}.catalog TO {role['auditor']}",
        *_job_grants(private, workers),
    ]


def _job_grants(private: str, workers: str) -> list[str]:
    """Who runs asks and serves. Nobody writes who asked, when, or for what: that is the record."""
    tables = ("job_queue", "job_progress", "worker", "schedule", "job", "progress")
    routines = (
        "find_method(text)", "check_parameter(text, jsonb, jsonb)",
        "request_parameters(text, jsonb)", "rho_of(numeric, numeric)",
        "spend_of(text, jsonb)", "request_hash(int, text, jsonb)",
        "require_budget(int, text, jsonb)", "raise_command(text, text, numeric)",
        "is_release_name(text)", "wake_workers()", "request_document(text, numeric, jsonb)",
        "request_release(text, text, numeric, jsonb)", "cancel_job(bigint)",
    )  # fmt: skip
    served = (
        "schedule_id, state, due_at, attempts, worker_id, lease_until, cancel_asked_by, started_at, "
        "ended_at, build_id, release_id, error, note"
    )
    return [
        f"GRANT SELECT ON {', '.join(f'{private}.{t}' for t in tables)} TO {workers}",
        f"GRANT INSERT (dataset_id, request) ON {private}.job_queue TO {workers}",
        f"GRANT UPDATE ({served}) ON {private}.job_queue TO {workers}",
        f"GRANT INSERT, UPDATE, DELETE ON {private}.job_progress, {private}.worker TO {workers}",
        f"GRANT INSERT (dataset_id, request, cron, timezone, next_at) ON {private}.schedule "
        f"TO {workers}",
        f"GRANT UPDATE (next_at, last_at, ended_at, ended_reason) ON {private}.schedule TO {workers}",
        f"GRANT EXECUTE ON FUNCTION {', '.join(f'{private}.{r}' for r in routines)} TO {workers}",
    ]
