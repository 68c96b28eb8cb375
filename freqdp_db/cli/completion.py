"""What a shell completes: methods, datasets and releases. Press TAB twice.

It asks the database that the command would use, but starts none, and says nothing if it cannot.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import typer

from freqdp_db.api import Freqdp
from freqdp_db.methods.registry import METHODS
from freqdp_db.settings import Settings, libpq_is_configured, load_settings

Completer = Callable[[typer.Context, str], list[str]]
_SECONDS = "2"


def methods(incomplete: str) -> list[tuple[str, str]]:
    """Methods, and after a `+` those that may follow."""
    before, plus, _ = incomplete.rpartition("+")
    found = [m for m in METHODS.values() if m.after or not plus]
    return [(before + plus + m.name, m.summary) for m in found
            if (before + plus + m.name).startswith(incomplete)]  # fmt: skip


def datasets(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of datasets."""
    return _starting(incomplete, ctx, Freqdp.dataset_names)


def releases(*states: str) -> Completer:
    """Names of releases in these states."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        return _starting(incomplete, ctx, lambda freqdp: freqdp.release_names(*states))

    return complete


def _starting(incomplete: str, ctx: typer.Context, ask: Callable[[Freqdp], list[str]]) -> list[str]:
    # a shell shows whatever is printed here in the middle of the line: rather nothing
    try:
        settings = _settings(ctx)
        if not _is_there(settings):
            return []
        os.environ.setdefault("PGCONNECT_TIMEOUT", _SECONDS)
        with Freqdp(settings) as freqdp:
            return sorted(name for name in ask(freqdp) if name.startswith(incomplete))
    except Exception:
        return []


def _settings(ctx: typer.Context) -> Settings:
    """With the options that stand before and after the command's name."""
    given: dict[str, str | None] = {}
    where: typer.Context | None = ctx
    while where is not None:
        for option in ("dsn", "schema", "release_schema"):
            given[option] = given.get(option) or where.params.get(option)
        where = where.parent  # type: ignore[assignment]
    return load_settings(**given)  # type: ignore[arg-type]


def _is_there(settings: Settings) -> bool:
    """False if the embedded server is meant and does not run: nobody starts it by pressing a key."""
    if settings.dsn is not None or libpq_is_configured():
        return True
    from freqdp_db.server.embedded import EmbeddedServer

    return EmbeddedServer(settings.data_dir).status().running
