"""Which GRANT a login lacks when the server says that permission is denied."""

from __future__ import annotations

import re

from freqdp_db.settings import Settings
from freqdp_db.storage.connection.names import format_name

_DENIED = re.compile(
    r"permission denied for (?P<kind>schema|table|view|materialized view|foreign table|sequence|"
    r"function|procedure|database|type|column) (?P<name>.+)"
)
_RIGHT = {
    "sequence": "USAGE ON SEQUENCE", "function": "EXECUTE ON FUNCTION",
    "procedure": "EXECUTE ON PROCEDURE", "database": "CONNECT, CREATE ON DATABASE",
    "type": "USAGE ON TYPE",
}  # fmt: skip
_RELATIONS = {"table", "view", "materialized view", "foreign table"}
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
    "runner": "to build, publish and measure: it reads original data",
    "admin": "to register datasets and raise budgets: it reads original data as well",
}
# Ours that administrators alone write or call; runners have the rest, auditors and analysts a part.
_FOR_ADMINISTRATORS = {
    "account", "dataset", "grant_budget", "claim_population", "name_population", "open_account",
}  # fmt: skip
_FOR_RUNNERS = {
    "build", "release", "release_step", "step_column", "release_key", "tf_target", "pf_target",
    "edit_run", "edit", "step_value",
    "metric", "method", "job_queue", "job_progress", "job", "progress", "worker",
    "schedule", "trajectory", "location", "sample", "segment", "grid_cell", "build_number",
    "record_release", "require_booked", "trace_source", "source_lineage", "build_source", "population",
    "population_source", "approve_release", "request_release", "cancel_job", "sql_object",
    "schema_version", "spend", "budget", "catalog", "create_build_table", "finish_build_table",
    "attach_build", "drop_build", "create_notes", "drop_notes", "create_staging", "index_staging",
    "finish_staging", "drop_staging", "publish_tables", "grant_release", "show_current",
    "drop_current", "revoke_release", "drop_release", "check_release", "lock",
}  # fmt: skip


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
    elif _stem(name) in _FOR_RUNNERS:
        role = "runner"
    elif name in _FOR_ADMINISTRATORS:
        role = "admin"
    if role is not None:
        granted = format_name(settings.role(role))
        return f"an administrator can: GRANT {granted} TO {login} ({_MAY[role]})"
    if kind == "schema":
        schema = format_name(name)
        return (
            f"its owner can: GRANT USAGE ON SCHEMA {schema} TO {login}; to make tables there: "
            f"GRANT CREATE ON SCHEMA {schema} TO {login}"
        )
    right = "SELECT ON" if kind in _RELATIONS else _RIGHT.get(kind)
    if right is None:
        return "ask the owner of the object, or a superuser, for that right"
    return f"its owner can: GRANT {right} {format_name(name)} TO {login}"


def _stem(name: str) -> str:
    """A partition's table: sample_12 is of `sample`."""
    return re.sub(r"_\d+$", "", name)
