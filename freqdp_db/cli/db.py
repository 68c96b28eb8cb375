"""`freqdp db`: start, stop and look at the embedded server."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from freqdp_db.cli.console import Session
from freqdp_db.commands import Argument, command

if TYPE_CHECKING:
    from freqdp_db.server.embedded import EmbeddedServer, ServerStatus

# With these set, libpq would go to another server than the one that psql is told.
_MISLEADING = ("PGHOSTADDR", "PGSERVICE")


class Server:
    """The commands of the embedded server."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def _server(self) -> "EmbeddedServer":
        from freqdp_db.server.embedded import EmbeddedServer

        return EmbeddedServer(self._session.settings.data_dir)

    @command("db start")
    def start(self) -> dict[str, Any]:
        """Start the embedded server; create it the first time."""
        from freqdp_db.server.embedded import connection_url

        server = self._server()
        url = connection_url(server.ensure_running())
        return {**vars(server.status()), "url": url}

    @command("db stop")
    def stop(self) -> dict[str, bool]:
        """Stop the embedded server; the data stays."""
        return {"stopped": self._server().stop()}

    @command("db status")
    def status(self) -> "ServerStatus":
        """Say whether the embedded server runs, and where its files are."""
        return self._server().status()

    @command("db url")
    def url(self) -> dict[str, str]:
        """Print the embedded server's URL, for psql, SQLAlchemy or --dsn; does not start it."""
        from freqdp_db.server.embedded import connection_url

        return {"url": connection_url(self._server().conninfo())}

    @command("db psql", passes_options=True)
    def psql(
        self,
        arguments: Annotated[
            Sequence[str] | None,
            Argument("Passed on to psql, as in `freqdp db psql -c 'SELECT 1'`."),
        ] = None,
    ) -> dict[str, list[str]]:
        """Open psql on the embedded server. With --json: print the command instead of running it."""
        server = self._server()
        server.ensure_running()
        words = [*server.psql_command(), *(arguments or [])]
        if not self._session.json:
            sys.stdout.flush()
            environment = {k: v for k, v in os.environ.items() if k not in _MISLEADING}
            os.execvpe(words[0], words, environment)
        return {"command": words}
