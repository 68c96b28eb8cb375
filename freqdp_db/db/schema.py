"""Create and upgrade our schemas: one transaction, or none of it.

Recorded objects are dropped newest first (never CASCADE), the revisions run, `sql/` is applied in
order, the grants are made again and the hashes recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import psycopg
import sqlalchemy as sa
from psycopg import sql

from freqdp_db import errors
from freqdp_db.db.connection import PINNED_PATH, Connection, Database, driver, login_of
from freqdp_db.db.names import find_postgis, postgis_schema
from freqdp_db.db.sql_objects import SqlObject, literal, load_objects, quoted, render, resource
from freqdp_db.db.tables import Names
from freqdp_db.settings import Settings

# PostGIS's functions that tell what it knows of any table, without asking for a right on it.
#
# The statistics of a geometry column are a histogram of where its rows lie, and the root of a GiST index is
# their extent. Tables of ours that are not granted keep no such statistics. Those of the source are its
# owner's: only the owner of PostGIS can close the functions.


_FUNCTIONS = (
    "_postgis_selectivity", "_postgis_join_selectivity", "_postgis_stats", "_postgis_index_extent",
    "st_estimatedextent",
)  # fmt: skip


def open_estimates(connection: Connection, postgis: str) -> list[str]:
    """The names of those of the functions that everybody may call."""
    found = connection.execute(
        sa.text(
            "SELECT DISTINCT p.proname::text FROM pg_proc p JOIN pg_namespace n "
            "ON n.oid = p.pronamespace WHERE n.nspname = :postgis AND p.proname = ANY(:names) "
            "AND EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a "
            "WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE') ORDER BY 1"
        ),
        {"postgis": postgis, "names": list(_FUNCTIONS)},
    )
    return list(found.scalars())


def estimates_closed(names: Names) -> str:
    """A statement that takes them from everybody, as a comment: whoever may run it decides."""
    text = """DO $close$
DECLARE
    item pg_catalog.regprocedure;
BEGIN
    FOR item IN
        SELECT p.oid FROM pg_catalog.pg_proc AS p
        JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
        WHERE n.nspname = ${postgis:name} AND p.proname IN (%s)
    LOOP
        EXECUTE pg_catalog.format('REVOKE EXECUTE ON FUNCTION %%s FROM PUBLIC', item);
    END LOOP;
END $close$;"""
    statement = render(text % ", ".join(map(literal, _FUNCTIONS)), names)
    return "\n".join(f"-- {line}" for line in statement.splitlines())


# Who may do what: the group roles and the statements that grant them their rights.


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
    "fingerprint", "software", "dropped_at", "time_window", "window_begin", "window_end",
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
    "leave_series", "drop_release",
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
        f"text, jsonb, text), {private}.require_booked(int), {private}.trace_source(int, int), "
        f"{private}.source_lineage(text, text), {private}.database_key(), "
        f"{private}.approve_release(int) TO {workers}",
        f"GRANT EXECUTE ON FUNCTION {private}.grant_budget(int, numeric, text), "
        f"{private}.claim_population(text, text, text, text), {private}.name_population(int, text), "
        f"{private}.open_account(int, text), {private}.declare_unit(int, text, text) TO {role['admin']}",
        f"GRANT EXECUTE ON FUNCTION {private}.spent_in(int, tstzrange) TO {workers}, {role['auditor']}",
        f"GRANT EXECUTE ON FUNCTION {search} TO {workers}",
        f"GRANT USAGE ON SCHEMA {release} TO {role['analyst']}",
        f"GRANT SELECT ON {release}.catalog, {release}.series TO {role['analyst']}, "
        f"{role['auditor']}, {workers}",
        f"GRANT EXECUTE ON FUNCTION {release}.tile(int, int, int, json) TO {workers}, {role['analyst']}",
        f"GRANT USAGE ON SCHEMA {private}, {release} TO {role['auditor']}",
        f"GRANT SELECT ON {private}.account, {private}.population, {private}.population_source, "
        f"{private}.build_source, {private}.spend, {private}.budget, {private}.release, "
        f"{private}.release_step, {private}.dataset, {private}.schema_version, "
        f"{private}.sql_object, {private}.publishable_metric TO {role['auditor']}",
        f"GRANT EXECUTE ON FUNCTION {private}.check_release(text) TO {workers}, {role['auditor']}",
        f"REVOKE ALL ON {private}.build FROM {role['auditor']}",
        f"GRANT SELECT ({', '.join(_AUDITED_OF_BUILD)}) ON {private}.build TO {role['auditor']}",
        *_job_grants(private, workers),
    ]


def _job_grants(private: str, workers: str) -> list[str]:
    """Who runs asks and serves. Nobody writes who asked, when, or for what: that is the record."""
    tables = ("job_queue", "job_progress", "worker", "schedule", "job", "progress")
    routines = (
        "find_method(text)", "check_parameter(text, jsonb, jsonb)",
        "request_parameters(text, jsonb)", "rho_of(numeric, numeric)",
        "spend_of(text, jsonb)", "request_hash(int, text, jsonb)",
        "require_budget(int, text, jsonb, timestamptz, timestamptz)",
        "raise_command(text, text, numeric)", "find_window(text, text)",
        "units_of(int, text, timestamptz, timestamptz)",
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
        f"GRANT INSERT (dataset_id, request, cron, timezone, next_at, next_window) ON {private}.schedule "
        f"TO {workers}",
        f"GRANT UPDATE (next_at, last_at, ended_at, ended_reason, next_window) ON {private}.schedule "
        f"TO {workers}",
        f"GRANT EXECUTE ON FUNCTION {', '.join(f'{private}.{r}' for r in routines)} TO {workers}",
    ]


INIT_REMEDY = "run `freqdp init` (or give its script to the DBA: `freqdp init --sql`)"
ROLES_REMEDY = (
    "give the script of `freqdp init --sql --roles` to somebody with CREATEROLE, then run "
    "`freqdp init` again"
)
_HAS_SERIES = "0009"
"""The revision that made the table `series`."""
_BECOME_OWNER = """DO $owner$
BEGIN
    EXECUTE pg_catalog.format('SET LOCAL ROLE %I', (
        SELECT r.rolname FROM pg_catalog.pg_namespace AS n
        JOIN pg_catalog.pg_roles AS r ON r.oid = n.nspowner WHERE n.nspname = {schema}
    ));
END $owner$;"""
_CLOSE_ESTIMATES = """\
-- Optional, for the owner of PostGIS (a superuser, as a rule): these functions tell everybody who may
-- connect what the statistics of any table say about where its rows lie, source tables included. Planning
-- does not need them; QGIS asks for one of them where "use estimated table metadata" is set.
{close}"""


@dataclass
class UpgradeResult:
    """What `init` did."""

    created: bool = False
    revision_before: str | None = None
    revision: str = ""
    objects_changed: list[str] = field(default_factory=list)
    methods_changed: bool = False
    roles_created: list[str] = field(default_factory=list)
    roles_missing: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return bool(
            self.created
            or self.revision_before != self.revision
            or self.objects_changed
            or self.methods_changed
            or self.roles_created
        )


def head_revision() -> str:
    """The newest revision: they are numbered, and their files begin with the number."""
    newest = max(path.name for path in (resource("migrations") / "versions").glob("[0-9]*.py"))
    return newest.partition("_")[0]


def server_version(connection: sa.Connection) -> tuple[int, str]:
    """As a number to compare, and as people write it."""
    row = connection.execute(
        sa.text(
            "SELECT current_setting('server_version_num')::int, current_setting('server_version')"
        )
    ).one()
    return row[0], row[1]


def existing_roles(connection: sa.Connection, roles: list[str]) -> set[str]:
    return set(
        connection.execute(
            sa.text("SELECT rolname FROM pg_roles WHERE rolname = ANY(:roles)"), {"roles": roles}
        ).scalars()
    )


def names_of(connection: sa.Connection, database: Database) -> Names:
    return Names.of(database.settings, postgis_schema(connection))


def current_revision(connection: sa.Connection, schema: str) -> str | None:
    known = connection.execute(
        sa.text("SELECT to_regclass(:name) IS NOT NULL"),
        {"name": f"{quoted(schema)}.schema_version"},
    ).scalar()
    if not known:
        return None
    row = (
        driver(connection)
        .execute(
            sql.SQL("SELECT version_num FROM {}").format(sql.Identifier(schema, "schema_version"))
        )
        .fetchone()
    )
    return None if row is None else str(row[0])


def recorded_objects(connection: sa.Connection, schema: str) -> list[tuple[str, str, str]]:
    """(path, identity, hash) of the applied objects, in order."""
    rows = driver(connection).execute(
        sql.SQL("SELECT path, identity, hash FROM {} ORDER BY position").format(
            sql.Identifier(schema, "sql_object")
        )
    )
    return [(path, identity, hash_) for path, identity, hash_ in rows]


def reads_private(database: Database) -> bool:
    """False for who may look into the release schema alone: an analyst; anybody, where there is no more."""
    with database.begin() as connection:
        login = login_of(connection, database.settings)
    return login.sees_private or not login.sees_released


def require_current(database: Database) -> None:
    """Refuse a database whose schema is missing or not the one of this software."""
    schema = database.settings.schema
    with database.begin() as connection:
        revision = current_revision(connection, schema)
        if revision is None:
            raise errors.SchemaMissing(
                f"this database has no schema {schema!r} of freqdp's, or you may not read it",
                remedy=INIT_REMEDY,
            )
        names = Names.of(database.settings, find_postgis(connection) or "public")
        recorded = {(path, hash_) for path, _, hash_ in recorded_objects(connection, schema)}
    current = {(o.path, o.hash) for o in load_objects(names)}
    if revision != head_revision():
        raise errors.SchemaStale(
            f"the schema {schema!r} (revision {revision}) does not belong to this version of freqdp "
            f"(revision {head_revision()})",
            remedy=INIT_REMEDY,
        )
    if recorded != current:
        raise errors.SchemaStale(
            f"functions or views of the schema {schema!r} do not belong to this version of freqdp",
            remedy=INIT_REMEDY,
        )


def upgrade(
    database: Database, *, require_roles: bool = False, create_roles: bool = True
) -> UpgradeResult:
    """Bring the database to this software's schema. Twice changes nothing."""
    # only `init` and the test of what is declared have to import the methods
    from freqdp_db.db.declared import declare, is_declared

    result = UpgradeResult(revision=head_revision())
    with database.begin() as connection:
        names = names_of(connection, database)
        result.revision_before = current_revision(connection, names.schema)
        result.created = result.revision_before is None
        grant = create_roles and _make_roles(connection, names, result, require_roles)
        result.objects_changed = _changed_objects(connection, names, result)
        current = result.revision_before == result.revision and not result.objects_changed
        foreign = not result.created and objects_of_others(connection, database.settings)
        if current and not grant and not foreign and is_declared(connection, names.schema):
            return result
        _become_owner(connection, names)
        _create_schemas(connection, names)
        _lock_version(connection, names.schema)
        # another one may have been at work meanwhile
        result.revision_before = current_revision(connection, names.schema)
        result.created = result.revision_before is None
        result.objects_changed = _changed_objects(connection, names, result)
        current = result.revision_before == result.revision and not result.objects_changed
        _require_free_names(connection, names, result.revision_before)
        if not current:
            _upgrade_objects(connection, names, result)
        result.methods_changed = declare(connection, names)
        if create_roles and not result.roles_missing:
            for statement in grant_statements(names):
                _run(connection, statement)
    return result


def _require_free_names(connection: sa.Connection, names: Names, revision: str | None) -> None:
    """Refuse to upgrade where a release is called as a table that earlier revisions did not have."""
    if revision is None or revision >= _HAS_SERIES:
        return
    taken = connection.execute(
        sa.text(
            "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = :schema AND c.relname = 'series'"
        ),
        {"schema": names.release_schema},
    )
    if taken.scalar() is not None:
        raise errors.AlreadyExists(
            f"{names.release_schema}.series is there, and this version keeps its own table of that name. "
            "Nothing was changed",
            remedy="if it is a release, withdraw it with the version of freqdp that made it (freqdp "
            "release withdraw series); if it is a table of yours, rename it. Then run freqdp init again",
        )


def owner_of(connection: sa.Connection, schema: str) -> str | None:
    """Whose the schema is; None: there is none."""
    owner: str | None = connection.execute(
        sa.text(
            "SELECT r.rolname FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner "
            "WHERE n.nspname = :schema"
        ),
        {"schema": schema},
    ).scalar()
    return owner


def objects_of_others(connection: sa.Connection, settings: Settings) -> list[str]:
    """Relations and functions of both schemas that are not those of the owner of the private one."""
    found = connection.execute(
        sa.text(
            "WITH ours AS (SELECT n.oid, p.nspowner AS owner FROM pg_namespace n, pg_namespace p "
            "WHERE n.nspname IN (:private, :released) AND p.nspname = :private) "
            "SELECT c.oid::regclass::text FROM pg_class c JOIN ours o ON o.oid = c.relnamespace "
            "WHERE c.relowner <> o.owner AND c.relkind NOT IN ('i', 'I', 't') UNION ALL "
            "SELECT f.oid::regprocedure::text FROM pg_proc f JOIN ours o ON o.oid = f.pronamespace "
            "WHERE f.proowner <> o.owner ORDER BY 1"
        ),
        {"private": settings.schema, "released": settings.release_schema},
    )
    return list(found.scalars())


def _become_owner(connection: sa.Connection, names: Names) -> None:
    """What this transaction makes belongs to the owner of the schema, whoever runs it."""
    owner = owner_of(connection, names.schema)
    if owner is None:
        return
    for statement in ownership_statements(names):
        try:
            _run(connection, statement)
        except psycopg.errors.InsufficientPrivilege:
            raise errors.PermissionMissing(
                f"tables of schema {names.schema!r} belong to {names.schema}_runner, and you may not "
                f"give them to {owner}",
                remedy="run `freqdp init` once as a superuser: what belongs to whom is kept",
            ) from None
    is_owner, may_be = connection.execute(
        sa.text("SELECT current_user = :owner, pg_has_role(:owner, 'MEMBER')"), {"owner": owner}
    ).one()
    if not may_be:
        raise errors.PermissionMissing(
            f"schema {names.schema!r} belongs to {owner}",
            remedy=f"run `freqdp init` as {owner}, as a member of that role or as a superuser",
        )
    if not is_owner:
        driver(connection).execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(owner)))


def _run(connection: sa.Connection, statement: str) -> None:
    # not through SQLAlchemy: without parameters a % in a name or a text stays what it is
    driver(connection).execute(statement)


def _create_schemas(connection: sa.Connection, names: Names) -> None:
    for schema in (names.schema, names.release_schema):
        exists = connection.execute(
            sa.text("SELECT 1 FROM pg_namespace WHERE nspname = :schema"), {"schema": schema}
        ).scalar()
        if not exists:
            _require_may_create(connection, schema)
            try:
                # waits for another session that is making it
                with connection.begin_nested():
                    for statement in _schema_statements(names, schema):
                        _run(connection, statement)
            except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateSchema):
                continue  # that one has made it meanwhile


def _lock_version(connection: sa.Connection, schema: str) -> None:
    """One `init` at a time, once there is something to upgrade. Nobody but the owner can lock it so."""
    if current_revision(connection, schema) is not None:
        _run(connection, f"LOCK TABLE {quoted(schema)}.schema_version IN SHARE ROW EXCLUSIVE MODE")


def _require_may_create(connection: sa.Connection, schema: str) -> None:
    may, database, user = connection.execute(
        sa.text(
            "SELECT has_database_privilege(current_database(), 'CREATE'), "
            "current_database(), current_user"
        )
    ).one()
    if not may:
        raise errors.PermissionMissing(
            f"you may not create schema {schema!r} in database {database!r}",
            remedy=f"its owner can: GRANT CREATE ON DATABASE {quoted(database)} TO {quoted(user)}; "
            "or give the script of `freqdp init --sql` to the DBA",
        )


def _schema_statements(names: Names, schema: str) -> list[str]:
    comment = (
        "freqdp, private: everything derived from raw data"
        if schema == names.schema
        else "freqdp, publishable: released tables and their catalogue"
    )
    return [f"CREATE SCHEMA {quoted(schema)}", f"COMMENT ON SCHEMA {quoted(schema)} IS '{comment}'"]


def _changed_objects(connection: sa.Connection, names: Names, result: UpgradeResult) -> list[str]:
    """Paths of objects that are not the software's, or not the schema owner's."""
    if result.created:
        return sorted(o.path for o in load_objects(names))
    before = {p: h for p, _, h in recorded_objects(connection, names.schema)}
    after = {o.path: o.hash for o in load_objects(names)}
    others = set(
        connection.execute(
            sa.text(
                "SELECT p.proname::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace "
                "WHERE n.nspname = :schema AND p.proowner <> n.nspowner UNION ALL "
                "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
                "WHERE n.nspname = :schema AND c.relowner <> n.nspowner AND c.relkind = 'v'"
            ),
            {"schema": names.schema},
        ).scalars()
    )
    return sorted(
        p
        for p in before.keys() | after.keys()
        if before.get(p) != after.get(p) or p.partition("_")[2].partition(".")[0] in others
    )


def _upgrade_objects(connection: sa.Connection, names: Names, result: UpgradeResult) -> None:
    recorded = [] if result.created else recorded_objects(connection, names.schema)
    for _, identity, _ in reversed(recorded):
        _drop(connection, render(identity, names))
    from freqdp_db.db import revisions

    revisions.apply(connection, names)
    for statement in _version_statements(names) + _object_statements(names, load_objects(names)):
        _run(connection, statement)


def _drop(connection: sa.Connection, identity: str) -> None:
    try:
        _run(connection, f"DROP {identity}")
    except psycopg.errors.DependentObjectsStillExist as error:
        # Names of relations only: the detail of this error never holds a row.
        dependants = (error.diag.message_detail or "").splitlines()
        raise errors.SchemaInUse(
            f"the upgrade replaces {identity}, but: " + "; ".join(dependants),
            remedy="drop that object (keep its definition), upgrade, create it again",
        ) from None


def _version_statements(names: Names) -> list[str]:
    return [
        f"COMMENT ON TABLE {quoted(names.schema)}.schema_version IS "
        "'Revision of the tables (Alembic).'"
    ]


def _object_statements(names: Names, objects: list[SqlObject]) -> list[str]:
    table = sql.Identifier(names.schema, "sql_object")
    statements = [sql.SQL("DELETE FROM {}").format(table).as_string(None)]
    for position, item in enumerate(objects):
        record = sql.SQL(
            "INSERT INTO {} (position, path, identity, kind, hash) VALUES ({})"
        ).format(
            table,
            sql.SQL(", ").join(
                map(sql.Literal, (position, item.path, item.identity, item.kind, item.hash))
            ),
        )
        statements += [item.text, record.as_string(None)]
    return statements


def _make_roles(
    connection: sa.Connection, names: Names, result: UpgradeResult, require: bool
) -> bool:
    """Make the roles that are missing, if this login may; whether their rights are to be granted."""
    roles = [f"{names.schema}_{kind}" for kind in ROLES]
    existing = existing_roles(connection, roles)
    missing = [r for r in roles if r not in existing]
    if missing:
        may_create = connection.execute(
            sa.text("SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user")
        ).scalar()
        if not may_create:
            if require:
                raise errors.PermissionMissing(
                    "you may not create roles: " + ", ".join(missing), remedy=ROLES_REMEDY
                )
            result.roles_missing = missing
            return False
    try:
        for statement in role_statements(names):
            _run(connection, statement)
    except psycopg.errors.InsufficientPrivilege as error:
        raise errors.PermissionMissing(
            f"{names.schema}_admin is no member of {names.schema}_runner, and you may not make it "
            f"one: {error.diag.message_primary}",
            remedy=ROLES_REMEDY,
        ) from None
    result.roles_created = missing
    granted = (
        not result.created
        and connection.execute(
            sa.text("SELECT has_schema_privilege(:role, :schema, 'USAGE')"),
            {"role": f"{names.schema}_runner", "schema": names.schema},
        ).scalar()
    )
    return bool(missing or require or not granted)


def roles_script(names: Names) -> str:
    """The group roles alone: for somebody with CREATEROLE who has nothing else to do with freqdp."""
    parts = [
        "-- Makes the group roles of freqdp that are missing, and changes nothing else. Then the owner of\n"
        "-- freqdp's schemas runs `freqdp init`, which grants their rights.",
        *(f"{s};" for s in role_statements(names)),
    ]
    return "\n\n".join(parts) + "\n"


def script(names: Names, revision: str | None, recorded: list[str]) -> str:
    """The whole upgrade as a SQL script for a DBA, from this revision (None: from nothing).

    recorded: the identities of the functions and views that are there, in order.
    """
    parts: list[str] = ["BEGIN;", f"{PINNED_PATH};", *(f"{s};" for s in role_statements(names))]
    if revision is None:
        for schema in (names.schema, names.release_schema):
            parts += [s + ";" for s in _schema_statements(names, schema)]
    else:
        # whoever runs this, all stays with the owner of the schema
        parts += [f"{s};" for s in ownership_statements(names)]
        parts.append(_BECOME_OWNER.format(schema=literal(names.schema)))
        parts += [f"DROP {render(identity, names)};" for identity in reversed(recorded)]
    if revision != head_revision():
        from freqdp_db.db import revisions

        parts.append(revisions.script(names, revision))
    parts += [s.rstrip().rstrip(";") + ";" for s in _version_statements(names)]
    parts += [s.rstrip().rstrip(";") + ";" for s in _object_statements(names, load_objects(names))]
    from freqdp_db.db.declared import declaration_statements

    parts += [s + ";" for s in declaration_statements(names)]
    parts += [s + ";" for s in grant_statements(names)]
    parts.append("COMMIT;")
    parts.append(_CLOSE_ESTIMATES.format(close=estimates_closed(names)))
    return "\n\n".join(parts) + "\n"


def check(database: Database) -> None:
    """`alembic check`: raises alembic.util.AutogenerateDiffsDetected if tables and metadata differ."""
    from freqdp_db.db import revisions

    with database.begin() as connection:
        names = names_of(connection, database)
    revisions.check(database, names)


# The script that removes freqdp from a database again: for a DBA to read and to run.


# Views of others that hang on ours would go with them: they are named, and nothing is dropped.
_GUARD = """DO $guard$
DECLARE
    hanging text;
BEGIN
    SELECT string_agg(DISTINCT format('%I.%I', n.nspname, v.relname), ', ') INTO hanging
    FROM pg_depend AS d
    JOIN pg_rewrite AS r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
    JOIN pg_class AS v ON v.oid = r.ev_class
    JOIN pg_namespace AS n ON n.oid = v.relnamespace
    JOIN pg_class AS c ON c.oid = d.refobjid AND d.refclassid = 'pg_class'::regclass
    JOIN pg_namespace AS s ON s.oid = c.relnamespace
    WHERE s.nspname IN ({schemas}) AND n.nspname NOT IN ({schemas});
    IF hanging IS NOT NULL THEN
        RAISE EXCEPTION 'these hang on relations of freqdp''s: %', hanging
        USING HINT = 'drop them first; nothing was removed';
    END IF;
END $guard$"""

_ROLE = """DO $role$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = {name}) THEN
        DROP OWNED BY {role};
        DROP ROLE {role};
    END IF;
EXCEPTION
    WHEN dependent_objects_still_exist OR object_in_use OR insufficient_privilege THEN
        RAISE NOTICE 'role % stays: another database uses it, or you may not drop it', {name};
END $role$"""


def removal_script(names: Names) -> str:
    """Drop both schemas with all they hold, and the group roles that no other database uses."""
    schemas = ", ".join(literal(s) for s in (names.release_schema, names.schema))
    parts = [
        "-- Removes freqdp from this database: datasets, builds, releases, the ledger of budgets and\n"
        "-- the records of all that was published. There is no way back but a backup. Your own tables\n"
        "-- stay as they are.",
        "BEGIN;",
        _GUARD.format(schemas=schemas) + ";",
        *(
            f"DROP SCHEMA IF EXISTS {quoted(s)} CASCADE;"
            for s in (names.release_schema, names.schema)
        ),
        "COMMIT;",
        "-- Roles belong to the whole server. Each in a transaction of its own: one may have to stay.",
    ]
    # administrators are runners, and so may the others be members of each other: members first
    for kind in ("admin", *(k for k in ROLES if k != "admin")):
        role = f"{names.schema}_{kind}"
        parts.append(_ROLE.format(name=literal(role), role=quoted(role)) + ";")
    return "\n\n".join(parts) + "\n"
