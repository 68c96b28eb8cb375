"""The schemas in a database, what is missing there, and what can be asked for."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from freqdp_db.doctor import Finding, diagnose
from freqdp_db.documents import Document, aside
from freqdp_db.errors import FreqdpError
from freqdp_db.interface.connecting import Connection, Target, reached
from freqdp_db.methods.registry import declarations
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.schema import upgrade
from freqdp_db.storage.schema.removal import removal_script
from freqdp_db.storage.schema.tables import Names


@dataclass(frozen=True)
class Installed(Document):
    """What `init` did."""

    created: bool
    revision_before: str | None
    revision: str
    objects_changed: list[str]
    methods_changed: bool
    roles_created: list[str]
    roles_missing: list[str]
    """Nobody made them, and this login may not."""
    changed: bool
    names: Names = aside()
    roles_remedy: str = aside()
    """What to do about roles that are missing."""


@dataclass(frozen=True)
class Script(Document):
    """What a DBA may run."""

    sql: str
    from_revision: str | None
    unreached: FreqdpError | None = aside()
    """Why it was made for an empty database with PostGIS in public."""


@dataclass(frozen=True)
class Diagnosis(Document):
    """What a working installation needs, and whether it is there."""

    ok: bool
    findings: list[Finding]


@dataclass(frozen=True)
class MethodShown(Document):
    """A method that can be asked for, and what it declares."""

    name: str
    summary: str
    kind: str
    unit: str | None
    """What one unit of its epsilon or rho protects; None: it spends nothing."""
    after: list[str]
    """Kinds of methods that it may follow: `lg+swap`."""
    spends: list[str]
    reads: list[str]
    """Parameters that name a table or view."""
    parameters: dict[str, dict[str, Any]]


def init(connection: Connection = None, *, roles: bool = False) -> Installed:
    """Create or upgrade freqdp's schemas. Again, it changes nothing.

    roles: insist on the group roles, and grant their rights again.
    """
    with reached(connection, check_schema=False) as database:
        result = upgrade.upgrade(database, require_roles=roles)
        names = Names.of(database.settings)
    return Installed(
        **vars(result), changed=result.changed, names=names, roles_remedy=upgrade.ROLES_REMEDY
    )


def init_script(connection: Connection = None, *, roles: bool = False) -> Script:
    """The same as a script: from the database's own revision if it can be reached, else from nothing.

    roles: only the group roles, for somebody who may make roles; `init` by the owner does the rest.
    """
    names, revision, unreached = Names.of(Target.of(connection).settings), None, None
    recorded: list[str] = []
    if roles:
        return Script(upgrade.roles_script(names), None, unreached=None)
    try:
        with reached(connection, check_schema=False) as database, database.begin() as session:
            names = upgrade.names_of(session, database)
            revision = upgrade.current_revision(session, names.schema)
            if revision is not None:
                recorded = [i for _, i, _ in upgrade.recorded_objects(session, names.schema)]
    except FreqdpError as error:
        unreached = error
    return Script(upgrade.script(names, revision, recorded), revision, unreached=unreached)


def uninstall_script(connection: Connection = None) -> Script:
    """A script that drops both schemas and the roles. Nothing is run, and no database is asked."""
    return Script(removal_script(Names.of(Target.of(connection).settings)), None, unreached=None)


def doctor(connection: Connection = None) -> Diagnosis:
    """What is missing, and the command that fixes it."""
    with ExitStack() as stack:

        def reach() -> Database:
            return stack.enter_context(reached(connection, check_schema=False))

        findings = diagnose(Target.of(connection).settings, reach)
    return Diagnosis(all(f.ok for f in findings), findings)


def methods() -> list[MethodShown]:
    """What `anonymize` and its like can be asked for, with the parameters of each."""
    return [MethodShown(name=name, **declared) for name, declared in declarations().items()]
