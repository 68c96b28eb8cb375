"""Who may do what: the group roles and the statements that grant them their rights."""

from __future__ import annotations

from freqdp_db.storage.schema.objects import literal, quoted, render
from freqdp_db.storage.schema.tables import Names

ROLES = {
    "admin": "registers datasets, raises budgets, withdraws releases",
    "runner": "builds datasets and publishes releases",
    "analyst": "reads published releases and their catalogue, nothing else",
    "auditor": "reads the ledger and the records of releases",
}

# What runners and administrators do to each table besides reading it. The ledger is written through
# functions only, and so are releases, who asked for or approved them, and which relations share a
# budget; draws and logs are added and never changed; a dataset stays with its budget, and a release
# with the request that was paid for.
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
}
# All that auditors read of a build: `grid` has coordinates, which may be those of a sample.
_AUDITED_OF_BUILD = (
    "build_id", "dataset_id", "snapshot_at", "built_at", "rows", "excluded", "trajectories", "samples",
    "locations", "segments", "source_srid", "srid", "snap", "time_unit", "time_step_us", "median_gap_us",
    "fingerprint", "software", "dropped_at",
)  # fmt: skip
_ADMIN_WRITES = {
    "dataset": ("INSERT", "UPDATE (dropped_at, region, period, srid, max_exposure, time_unit)"),
}
_READ_ALSO = (
    "account", "population", "population_source", "spend", "budget", "edit", "step_value",
    "method", "sql_object",
    "schema_version", "point_frequency", "trajectory_frequency", "location_weight", "signature",
    "publishable_metric", "trajectory", "location", "sample", "segment", "grid_cell",
)  # fmt: skip
# What the search and its users call, with what these call in turn: they run with the caller's rights.
_SEARCH_ROUTINES = (
    "box_distance", "segment_loss", "cell_segments", "cells_near", "search_place", "search_reach",
    "trajectories_within", "nearest_segments", "nearest_trajectories",
)  # fmt: skip


# What builds and releases are made with: functions of the owner's. Nobody else makes, changes or drops a
# relation in our schemas, so nobody can leave a default, a trigger or a view there for others to run.
_TABLE_ROUTINES = (
    "create_build_table", "finish_build_table", "attach_build", "drop_build", "create_notes",
    "drop_notes", "create_staging", "index_staging", "finish_staging", "drop_staging",
    "publish_tables", "grant_release", "show_current", "drop_current", "revoke_release",
    "drop_release",
)  # fmt: skip


def role_statements(names: Names) -> list[str]:
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
    return ["\n".join(lines)]


def ownership_statements(names: Names) -> list[str]:
    """Give the tables of builds and releases that belong to runners to the owner of the schema.

    Up to revision 0005 runners owned them, and who owns a table decides what runs when others write to it.
    """
    text = """DO $owner$
DECLARE
    item record;
BEGIN
    FOR item IN
        SELECT c.oid, n.nspname, c.relname, o.rolname AS owner
        FROM pg_catalog.pg_class AS c
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        JOIN pg_catalog.pg_roles AS r ON r.oid = c.relowner AND r.rolname = ${runner:name}
        JOIN pg_catalog.pg_namespace AS p ON p.nspname = ${private:name}
        JOIN pg_catalog.pg_roles AS o ON o.oid = p.nspowner
        WHERE n.nspname IN (${private:name}, ${release:name}) AND c.relkind IN ('r', 'p', 'v')
    LOOP
        -- freqdp makes none of these on such tables: they would run for whoever writes there
        IF EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = item.oid AND NOT tgisinternal)
            OR EXISTS (SELECT FROM pg_catalog.pg_attrdef WHERE adrelid = item.oid)
            OR EXISTS (SELECT FROM pg_catalog.pg_policy WHERE polrelid = item.oid)
            OR EXISTS (SELECT FROM pg_catalog.pg_rewrite WHERE ev_class = item.oid
                AND rulename <> '_RETURN')
            OR EXISTS (SELECT FROM pg_catalog.pg_index WHERE indrelid = item.oid
                AND (indexprs IS NOT NULL OR indpred IS NOT NULL))
        THEN
            RAISE EXCEPTION 'table %.% has a trigger, default, policy, rule or index that is not freqdp''s',
                item.nspname, item.relname
            USING ERRCODE = 'QF001', HINT = 'a runner has made it: look at it, drop it, run `freqdp init`';
        END IF;
        EXECUTE pg_catalog.format('ALTER TABLE %I.%I OWNER TO %I', item.nspname, item.relname, item.owner);
        EXECUTE pg_catalog.format(
            'GRANT SELECT ON %I.%I TO %I', item.nspname, item.relname, ${runner:name}
        );
    END LOOP;
END $owner$"""
    return [render(text, names)]


def grant_statements(names: Names) -> list[str]:
    """Everything is taken from PUBLIC; each role gets its rights. Repeating it changes nothing."""
    private, release = quoted(names.schema), quoted(names.release_schema)
    role = {kind: quoted(f"{names.schema}_{kind}") for kind in ROLES}
    read = ", ".join(f"{private}.{quoted(t)}" for t in (*_RUNNER_WRITES, *_READ_ALSO))
    search = ", ".join(f"{private}.{quoted(f)}" for f in (*_SEARCH_ROUTINES, *_TABLE_ROUTINES))
    workers = f"{role['admin']}, {role['runner']}"
    return [
        f"REVOKE ALL ON SCHEMA {private}, {release} FROM PUBLIC",
        f"REVOKE ALL ON ALL TABLES IN SCHEMA {private} FROM PUBLIC",
        f"REVOKE ALL ON ALL SEQUENCES IN SCHEMA {private} FROM PUBLIC",
        f"REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {private} FROM PUBLIC",
        f"REVOKE CREATE ON SCHEMA {private}, {release} FROM {', '.join(role.values())}",
        f"GRANT USAGE ON SCHEMA {private}, {release} TO {workers}",
        f"GRANT SELECT ON {read} TO {workers}",
        # what earlier versions granted, and functions do now
        f"REVOKE INSERT, UPDATE ON {private}.release, {private}.job_queue, {private}.account "
        f"FROM {workers}",
        *(
            f"GRANT {', '.join(rights)} ON {private}.{table} TO {grantee}"
            for grantee, writes in ((workers, _RUNNER_WRITES), (role["admin"], _ADMIN_WRITES))
            for table, rights in writes.items()
        ),
        f"GRANT USAGE ON SEQUENCE {private}.build_number TO {workers}",
        f"GRANT SELECT, INSERT, DELETE, UPDATE (granted) ON {release}.catalog TO {workers}",
        f"GRANT EXECUTE ON FUNCTION {private}.record_release(text, int, text, jsonb, boolean, boolean, "
        f"text, jsonb), {private}.require_booked(int), {private}.trace_source(int, int), "
        f"{private}.source_lineage(text, text), {private}.database_key(), "
        f"{private}.approve_release(int) TO {workers}",
        f"GRANT EXECUTE ON FUNCTION {private}.grant_budget(int, numeric, text), "
        f"{private}.claim_population(text, text, text, text), {private}.name_population(int, text), "
        f"{private}.open_account(int, text) TO {role['admin']}",
        f"GRANT EXECUTE ON FUNCTION {search} TO {workers}",
        f"GRANT USAGE ON SCHEMA {release} TO {role['analyst']}",
        f"GRANT SELECT ON {release}.catalog TO {role['analyst']}",
        f"GRANT USAGE ON SCHEMA {private}, {release} TO {role['auditor']}",
        f"GRANT SELECT ON {private}.account, {private}.population, {private}.population_source, "
        f"{private}.build_source, {private}.spend, {private}.budget, {private}.release, "
        f"{private}.release_step, {private}.dataset, {private}.schema_version, "
        f"{private}.sql_object, {private}.publishable_metric TO {role['auditor']}",
        f"GRANT EXECUTE ON FUNCTION {private}.check_release(text) TO {workers}, {role['auditor']}",
        f"REVOKE ALL ON {private}.build FROM {role['auditor']}",
        f"GRANT SELECT ({', '.join(_AUDITED_OF_BUILD)}) ON {private}.build TO {role['auditor']}",
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
        "protected_unit(int, text)",
        "is_release_name(text)", "wake_workers()", "request_document(text, numeric, jsonb)",
        "request_release(text, text, numeric, jsonb)", "cancel_job(bigint)",
    )  # fmt: skip
    served = (
        "schedule_id, state, due_at, attempts, worker_id, lease_until, started_at, ended_at, build_id, "
        "release_id, error, note"
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
