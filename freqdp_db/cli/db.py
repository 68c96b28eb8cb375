"""`freqdp db`: start, stop and look at the embedded server."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from freqdp_db.cli.console import Session, command

if TYPE_CHECKING:
    from freqdp_db.server.embedded import EmbeddedServer

# With these set, libpq would go to another server than the one that psql is told.
_MISLEADING = ("PGHOSTADDR", "PGSERVICE")


def _server(session: Session) -> EmbeddedServer:
    from freqdp_db.server.embedded import EmbeddedServer

    return EmbeddedServer(session.settings.data_dir)


def _url(conninfo: str) -> str:
    from freqdp_db.server.embedded import connection_url

    return connection_url(conninfo)


def register(app: typer.Typer) -> None:
    @command(app, "start")
    def start(session: Session) -> None:
        """Start the embedded server; create it the first time."""
        server = _server(session)
        url = _url(server.ensure_running())
        status = server.status()
        session.answer(
            {**vars(status), "url": url},
            lambda: session.print(f"PostgreSQL {status.version} runs in {status.data_dir}"),
        )

    @command(app, "stop")
    def stop(session: Session) -> None:
        """Stop the embedded server; the data stays."""
        stopped = _server(session).stop()
        session.answer(
            {"stopped": stopped},
            lambda: session.print("stopped" if stopped else "the server was not running"),
        )

    @command(app, "status")
    def status(session: Session) -> None:
        """Say whether the embedded server runs, and where its files are."""
        found = _server(session).status()
        session.answer(
            found,
            lambda: session.pairs(
                [
                    ("running", found.running),
                    ("version", found.version),
                    ("process", None if found.pid is None else str(found.pid)),
                    ("data", found.data_dir),
                    ("socket", found.socket_dir),
                    ("database", found.database),
                ]
            ),
        )

    @command(app, "url")
    def url(session: Session) -> None:
        """Print the embedded server's URL, for psql, SQLAlchemy or --dsn; does not start it."""
        address = _url(_server(session).conninfo())
        session.answer({"url": address}, lambda: session.print(address))

    @command(app, "psql", context_settings={"ignore_unknown_options": True})
    def psql(
        session: Session,
        arguments: Annotated[
            list[str] | None,
            typer.Argument(help="Passed on to psql, as in `freqdp db psql -c 'SELECT 1'`."),
        ] = None,
    ) -> None:
        """Open psql on the embedded server. With --json: print the command instead of running it."""
        server = _server(session)
        server.ensure_running()
        words = [*server.psql_command(), *(arguments or [])]
        if session.json:
            session.answer({"command": words}, lambda: None)
            return
        sys.stdout.flush()
        environment = {k: v for k, v in os.environ.items() if k not in _MISLEADING}
        os.execvpe(words[0], words, environment)
