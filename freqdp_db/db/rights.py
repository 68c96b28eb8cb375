"""Who may do what: the group roles, the statements that grant their rights, and which one is lacking."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from freqdp_db.db.names import format_name, literal, quoted
from freqdp_db.settings import Settings

if TYPE_CHECKING:
    from freqdp_db.db.tables import Names

ROLES = {
    "admin": "registers datasets, raises budgets, withdraws releases",
    "runner": "builds datasets and publishes releases",
    "analyst": "reads published releases and their catalogue, nothing else",
    "auditor": "reads the ledger and the records of releases",
}

# What runners and administrators do to each table besides reading it. The ledger is written through
# functions only, and so are releases, who asked for or approved them, and which relations share a
# budget; draws and logs are added and never changed; a dataset stays with its budget, and a release
# with the request that was paid for. Nobody writes who asked for a job, when, or for what.
_RUNNER_WRITES = {
    "dataset": ("UPDATE (current_build)",),
    "build": ("INSERT", "UPDATE (dropped_at)"),
    "build_source": ("INSERT",),
    "release": (
        "UPDATE (state, version, published_at, withdrawn_at, rows, user_level, timings, digests)",
    ),
    "release_step": ("INSERT", "UPDATE (counts, digest)"),
    "step_column": ("INSERT",),
    "release_key": ("INSERT",),
    "tf_target": ("INSERT",),
    "pf_target": ("INSERT",),
    "edit_run": ("INSERT",),
    "metric": ("INSERT", "UPDATE", "DELETE"),
    # who may not change a row may not lock it
    "lock": ("INSERT", "UPDATE"),
    "job_queue": (
        "INSERT (dataset_id, request)",
        "UPDATE (schedule_id, state, due_at, attempts, worker_id, lease_until, started_at, ended_at, "
        "build_id, release_id, error, note)",
    ),
    "job_progress": ("INSERT", "UPDATE", "DELETE"),
    "worker": ("INSERT", "UPDATE", "DELETE"),
    "schedule": (
        "INSERT (dataset_id, name, request, cron, timezone, next_at, next_window)",
        "UPDATE (next_at, last_at, ended_at, ended_reason, next_window)",
    ),
}
_ADMIN_WRITES = {
    "dataset": (
        "INSERT",
        "UPDATE (dropped_at, region, period, srid, max_exposure, time_unit, keep_columns)",
    )
}
_READ_ALSO = (
    "account", "population", "population_source", "spend", "budget", "edit", "step_value",
    "method", "sql_object", "schema_version", "point_frequency", "trajectory_frequency",
    "location_weight", "signature", "publishable_metric", "job", "progress",
    "trajectory", "location", "sample", "segment", "grid_cell",
)  # fmt: skip
_AUDITED = (
    "account", "population", "population_source", "build_source", "spend", "budget", "release",
    "release_step", "dataset", "schema_version", "sql_object", "publishable_metric",
)  # fmt: skip
# All that auditors read of a build: `grid` has coordinates, which may be those of a sample.
_AUDITED_OF_BUILD = (
    "build_id", "dataset_id", "snapshot_at", "built_at", "rows", "excluded", "trajectories", "samples",
    "locations", "segments", "source_srid", "srid", "snap", "time_unit", "time_step_us", "median_gap_us",
    "fingerprint", "software", "dropped_at", "time_window", "window_begin", "window_end", "kept",
)  # fmt: skip
_RUNNER_CALLS = (
    # recording a release and its spend
    "record_release", "require_booked", "trace_source", "source_lineage", "database_key",
    "approve_release", "spent_in", "check_release",
    # the search and its users, with what these call in turn: they run with the caller's rights
    "box_distance", "segment_loss", "cell_segments", "cells_near", "search_place", "search_reach",
    "trajectories_within", "nearest_segments", "nearest_trajectories",
    # What builds and releases are made with: functions of the owner's. Nobody else makes, changes or drops
    # a relation in our schemas, so nobody can leave a default, a trigger or a view there for others to run.
    "create_build_table", "finish_build_table", "attach_build", "drop_build", "create_notes",
    "drop_notes", "create_staging", "index_staging", "finish_staging", "drop_staging",
    "publish_tables", "grant_release", "show_current", "drop_current", "revoke_release",
    "leave_series", "drop_release",
    # requests in SQL
    "find_method", "check_parameter", "request_parameters", "rho_of", "spend_of", "request_hash",
    "require_budget", "raise_command", "find_window", "units_of", "protected_unit",
    "require_unit", "time_reading", "is_release_name",
    "wake_workers", "request_document", "require_series", "check_request", "request_release", "cancel_job",
)  # fmt: skip
_ADMIN_CALLS = (
    "grant_budget", "claim_population", "name_population", "open_account", "declare_unit",
)  # fmt: skip
_AUDITOR_CALLS = ("spent_in", "check_release")


def role_statement(names: Names) -> str:
    """Create the group roles that do not exist yet: needs CREATEROLE, and nothing else does."""
    runner, admin = (f"{names.schema}_{kind}" for kind in ("runner", "admin"))
    lines = ["DO $roles$", "BEGIN"]
    for kind, what in ROLES.items():
        role = f"{names.schema}_{kind}"
        lines += [
            f"    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = {literal(role)}) THEN",
            f"        CREATE ROLE {quoted(role)} NOLOGIN;",
            f"        COMMENT ON ROLE {quoted(role)} IS {literal(f'freqdp: {what}')};",
            "    END IF;",
        ]
    lines += [
        f"    IF NOT pg_catalog.pg_has_role({literal(admin)}, {literal(runner)}, 'MEMBER') THEN",
        f"        GRANT {quoted(runner)} TO {quoted(admin)};",
        "    END IF;",
        "END $roles$",
    ]
    return "\n".join(lines)


def grant_statements(names: Names) -> list[str]:
    """Everything is taken from PUBLIC; each role gets its rights. Repeating it changes nothing."""
    private, release = quoted(names.schema), quoted(names.release_schema)
    role = {kind: quoted(f"{names.schema}_{kind}") for kind in ROLES}
    workers = f"{role['admin']}, {role['runner']}"

    def ours(objects: Iterable[str]) -> str:
        return ", ".join(f"{private}.{quoted(name)}" for name in objects)

    return [
        f"REVOKE ALL ON SCHEMA {private}, {release} FROM PUBLIC",
        f"REVOKE ALL ON ALL TABLES IN SCHEMA {private} FROM PUBLIC",
        f"REVOKE ALL ON ALL SEQUENCES IN SCHEMA {private} FROM PUBLIC",
        f"REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {private} FROM PUBLIC",
        f"REVOKE CREATE ON SCHEMA {private}, {release} FROM {', '.join(role.values())}",
        f"GRANT USAGE ON SCHEMA {private}, {release} TO {workers}, {role['auditor']}",
        f"GRANT USAGE ON SCHEMA {release} TO {role['analyst']}",
        # what earlier versions granted, and functions do now
        f"REVOKE INSERT, UPDATE ON {ours(('release', 'job_queue', 'account'))} FROM {workers}",
        f"REVOKE ALL ON {private}.build FROM {role['auditor']}",
        f"GRANT SELECT ON {ours((*_RUNNER_WRITES, *_READ_ALSO))} TO {workers}",
        *(
            f"GRANT {', '.join(rights)} ON {private}.{table} TO {grantee}"
            for grantee, writes in ((workers, _RUNNER_WRITES), (role["admin"], _ADMIN_WRITES))
            for table, rights in writes.items()
        ),
        f"GRANT USAGE ON SEQUENCE {private}.build_number TO {workers}",
        f"GRANT SELECT, INSERT, DELETE, UPDATE (granted) ON {release}.catalog TO {workers}",
        f"GRANT SELECT ON {release}.catalog, {release}.series TO {role['analyst']}, "
        f"{role['auditor']}, {workers}",
        f"GRANT SELECT ON {ours(_AUDITED)} TO {role['auditor']}",
        f"GRANT SELECT ({', '.join(_AUDITED_OF_BUILD)}) ON {private}.build TO {role['auditor']}",
        f"GRANT EXECUTE ON FUNCTION {ours(_RUNNER_CALLS)} TO {workers}",
        f"GRANT EXECUTE ON FUNCTION {ours(_ADMIN_CALLS)} TO {role['admin']}",
        f"GRANT EXECUTE ON FUNCTION {ours(_AUDITOR_CALLS)} TO {role['auditor']}",
        f"GRANT EXECUTE ON FUNCTION {release}.tile TO {workers}, {role['analyst']}",
    ]


# Which GRANT a login lacks when the server says that permission is denied.


_DENIED = re.compile(
    r"permission denied for (?P<kind>schema|table|view|materialized view|foreign table|sequence|"
    r"function|procedure|database|type|column) (?P<name>.+)"
)
_RIGHT = {
    "sequence": "USAGE ON SEQUENCE", "function": "EXECUTE ON FUNCTION",
    "procedure": "EXECUTE ON PROCEDURE", "database": "CONNECT, CREATE ON DATABASE",
    "type": "USAGE ON TYPE", "table": "SELECT ON", "view": "SELECT ON",
    "materialized view": "SELECT ON", "foreign table": "SELECT ON",
}  # fmt: skip
# The least role with which a command can be run, where that is not a runner's: who is one reads originals.
_LEAST = {
    "release list": "analyst", "release show": "analyst", "release export": "analyst",
    "release report": "analyst",
    "budget": "auditor", "ledger verify": "auditor", "dataset list": "auditor",
    "dataset show": "auditor",
    "dataset add": "admin", "dataset set": "admin", "dataset drop": "admin", "apply": "admin",
}  # fmt: skip
_MAY = {
    "analyst": "to read releases that were granted, and nothing else",
    "auditor": "to read the ledger and the records, and no data",
    "runner": "to build, publish and measure",
    "admin": "to register datasets and raise budgets",
}
_FOR_ADMINISTRATORS = {"account", "dataset", *_ADMIN_CALLS}
_FOR_RUNNERS = {*_RUNNER_WRITES, *_READ_ALSO, *_RUNNER_CALLS, "build_number", "catalog", "series"}


def remedy_for(denied: str, settings: Settings, user: str | None, command: str = "") -> str:
    """The least that an administrator has to grant; `denied` is the server's message."""
    login = format_name(user) if user else "your login"
    found = _DENIED.fullmatch(denied)
    if found is None:
        return "ask the owner of the object, or a superuser, for that right"
    kind, name = found["kind"], found["name"]
    role = None
    if kind == "schema" and name == settings.release_schema:
        role = "analyst"
    elif (kind, name) == ("schema", settings.schema):
        role = _LEAST.get(command, "runner")
    elif name in _FOR_ADMINISTRATORS:
        role = "admin"
    # of a partition, the table: sample_12 is of `sample`
    elif re.sub(r"_\d+$", "", name) in _FOR_RUNNERS:
        role = "runner"
    if role is not None:
        granted = format_name(settings.role(role))
        if role in ("runner", "admin"):
            return (
                f"this reads original data, and is not for analysts: they have schema "
                f"{format_name(settings.release_schema)} (`freqdp release list`). For others an "
                f"administrator can: GRANT {granted} TO {login} ({_MAY[role]})"
            )
        return f"an administrator can: GRANT {granted} TO {login} ({_MAY[role]})"
    if kind == "schema":
        schema = format_name(name)
        return (
            f"its owner can: GRANT USAGE ON SCHEMA {schema} TO {login}; to make tables there: "
            f"GRANT CREATE ON SCHEMA {schema} TO {login}"
        )
    if kind not in _RIGHT:
        return "ask the owner of the object, or a superuser, for that right"
    return f"its owner can: GRANT {_RIGHT[kind]} {format_name(name)} TO {login}"
