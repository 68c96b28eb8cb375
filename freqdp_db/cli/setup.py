"""`freqdp init` and `freqdp doctor`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from freqdp_db.cli.console import Session, command
from freqdp_db.errors import FreqdpError


def register(app: typer.Typer) -> None:
    @command(app, "init")
    def init(
        session: Session,
        sql: Annotated[
            bool, typer.Option("--sql", help="Print the script for a DBA instead of running it.")
        ] = False,
        roles: Annotated[
            bool,
            typer.Option(
                "--roles", help="Insist on the group roles, and grant their rights again."
            ),
        ] = False,
    ) -> None:
        """Create or upgrade freqdp's schemas in the database. Running it twice changes nothing."""
        from freqdp_db.storage.schema import upgrade as schema
        from freqdp_db.storage.schema.tables import Names

        if sql:
            _print_script(session)
            return
        database = session.database(check_schema=False)
        result = schema.upgrade(database, require_roles=roles)
        document = {**asdict(result), "changed": result.changed}

        def show() -> None:
            names = Names.of(session.settings)
            if not result.changed:
                session.print(
                    f"Nothing to do: schema {names.schema} is at revision {result.revision}."
                )
            else:
                verb = "Created" if result.created else "Upgraded"
                session.print(
                    f"{verb} schema {names.schema} (private) and {names.release_schema} "
                    f"(publishable), revision {result.revision}."
                )
                if result.roles_created:
                    session.print("Created roles: " + ", ".join(result.roles_created))
            if result.roles_missing:
                session.print("Roles that you may not create: " + ", ".join(result.roles_missing))
                session.print(
                    "  give the script of `freqdp init --sql` to somebody with CREATEROLE"
                )

        session.answer(document, show)

    @command(app, "doctor")
    def doctor(session: Session) -> None:
        """Say what is missing, and the command that fixes it."""
        from freqdp_db.doctor import diagnose

        findings = diagnose(session.settings, session.database)
        ok = all(f.ok for f in findings)

        def show() -> None:
            for finding in findings:
                session.print(f"{'ok  ' if finding.ok else 'MISS'}  {finding.what}")
                if not finding.ok and finding.remedy:
                    session.print(f"        -> {finding.remedy}")

        session.answer({"ok": ok, "findings": [asdict(f) for f in findings]}, show)
        if not ok:
            raise typer.Exit(1)


def _print_script(session: Session) -> None:
    """The script from the database's own revision if it can be reached, else from nothing."""
    from freqdp_db.storage.schema import upgrade as schema
    from freqdp_db.storage.schema.tables import Names

    names, revision = Names.of(session.settings), None
    try:
        database = session.database(check_schema=False)
        with database.begin() as connection:
            names = schema.names_of(connection, database)
            revision = schema.current_revision(connection, names.schema)
    except FreqdpError as error:
        session.say(f"-- {error.message}: the script assumes an empty database, PostGIS in public")
    text = schema.script(names, revision)
    if session.json:
        session.answer({"sql": text, "from_revision": revision}, lambda: None)
    else:
        sys.stdout.write(text)
