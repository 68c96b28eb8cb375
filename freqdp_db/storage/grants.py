"""Who may do what: the group roles and the statements that grant them their rights."""

from __future__ import annotations

from freqdp_db.storage.objects import quoted
from freqdp_db.storage.tables import Names

ROLES = {
    "admin": "registers datasets, raises budgets, withdraws releases",
    "runner": "builds datasets and publishes releases",
    "analyst": "reads published releases and their catalogue, nothing else",
    "auditor": "reads the ledger and the records of releases",
}

# What the runner and the administrator write. The ledger is written through functions only.
_WORK_TABLES = (
    "dataset", "build", "trajectory", "location", "sample", "segment", "grid_cell", "release",
    "release_step", "release_key", "tf_target", "pf_target", "edit_run", "metric",
)  # fmt: skip
_READ_ALSO = (
    "account", "spend", "budget", "edit", "sql_object", "schema_version", "point_frequency",
    "trajectory_frequency", "location_weight", "signature",
)  # fmt: skip


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
    work = ", ".join(f"{private}.{quoted(t)}" for t in _WORK_TABLES)
    read = ", ".join(f"{private}.{quoted(t)}" for t in _READ_ALSO)
    workers = f"{role['admin']}, {role['runner']}"
    return [
        f"REVOKE ALL ON SCHEMA {private}, {release} FROM PUBLIC",
        f"REVOKE ALL ON ALL TABLES IN SCHEMA {private} FROM PUBLIC",
        f"REVOKE ALL ON ALL SEQUENCES IN SCHEMA {private} FROM PUBLIC",
        f"REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {private} FROM PUBLIC",
        f"GRANT USAGE, CREATE ON SCHEMA {private}, {release} TO {workers}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {work} TO {workers}",
        f"GRANT SELECT ON {read} TO {workers}",
        f"GRANT INSERT, UPDATE ON {private}.account TO {workers}",
        f"GRANT USAGE ON SEQUENCE {private}.build_number TO {workers}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {release}.catalog TO {workers}",
        f"GRANT EXECUTE ON FUNCTION {private}.book_spend(int, numeric, int, text) TO {workers}",
        f"GRANT EXECUTE ON FUNCTION {private}.grant_budget(int, numeric, text) TO {role['admin']}",
        f"GRANT USAGE ON SCHEMA {release} TO {role['analyst']}",
        f"GRANT SELECT ON {release}.catalog TO {role['analyst']}",
        f"GRANT USAGE ON SCHEMA {private}, {release} TO {role['auditor']}",
        f"GRANT SELECT ON {private}.account, {private}.spend, {private}.budget, {private}.release, "
        f"{private}.release_step, {private}.dataset, {private}.build, {private}.schema_version "
        f"TO {role['auditor']}",
        f"GRANT SELECT ON {release}.catalog TO {role['auditor']}",
    ]
