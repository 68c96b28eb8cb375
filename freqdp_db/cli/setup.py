"""`freqdp init`, `freqdp apply`, `freqdp doctor` and `freqdp uninstall`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import freqdp_db
from freqdp_db.cli.console import Session, command
from freqdp_db.errors import BadInput


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
                "--roles",
                help="Insist on the group roles, and grant their rights again. With --sql: print the "
                "script that makes the roles, and nothing else.",
            ),
        ] = False,
    ) -> None:
        """Create or upgrade freqdp's schemas in the database. Running it twice changes nothing."""
        if sql:
            _print_script(session, roles)
            return
        result = freqdp_db.init(session.target, roles=roles)

        def show() -> None:
            names = result.names
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
                session.print(f"  {result.roles_remedy}")

        session.answer(result, show)

    @command(app, "apply")
    def apply(
        session: Session,
        file: Annotated[
            Path, typer.Option("--file", help="The file with datasets, limits and schedules.")
        ] = Path("freqdp.toml"),
        plan: Annotated[
            bool, typer.Option("--plan", help="Only show what would be changed.")
        ] = False,
    ) -> None:
        """Bring about what freqdp.toml says: datasets, limits, budgets, schedules."""
        session.show(freqdp_db.apply(session.target, file, plan=plan))

    @command(app, "uninstall")
    def uninstall(
        session: Session,
        sql: Annotated[
            bool, typer.Option("--sql", help="Print the script. It is for you to run.")
        ] = False,
    ) -> None:
        """Print the script that removes freqdp from a database: schemas, releases, ledger, roles."""
        if not sql:
            raise BadInput(
                "--sql is missing: this command drops nothing by itself",
                remedy="read the script, then run it: freqdp uninstall --sql | psql ...",
            )
        script = freqdp_db.uninstall_script(session.target)
        session.answer(script, lambda: _write(script.sql))

    @command(app, "doctor")
    def doctor(session: Session) -> None:
        """Say what is missing, and the command that fixes it."""
        found = freqdp_db.doctor(session.target)

        def show() -> None:
            for finding in found.findings:
                mark = "note" if finding.advice else "ok  " if finding.ok else "MISS"
                session.print(f"{mark}  {finding.what}")
                if (finding.advice or not finding.ok) and finding.remedy:
                    session.print(f"        -> {finding.remedy}")

        session.answer(found, show)
        if not found.ok:
            raise typer.Exit(1)


def _print_script(session: Session, roles: bool) -> None:
    script = freqdp_db.init_script(session.target, roles=roles)
    if script.unreached is not None:
        why = script.unreached.as_options()["message"]
        session.say(f"-- {why}: the script assumes an empty database, PostGIS in public")

    session.answer(script, lambda: _write(script.sql))


def _write(text: str) -> None:
    sys.stdout.write(text)
