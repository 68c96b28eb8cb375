"""Hand out releases by a database that has nothing else: analysts of it can see no more than these."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from freqdp_db.db import connection as engine
from freqdp_db.db import copying
from freqdp_db.db.connection import Connection, Database
from freqdp_db.db.names import did_you_mean
from freqdp_db.db.published import CatalogRow, read_catalog
from freqdp_db.errors import BadInput, Busy, ConnectionFailed, NotFound
from freqdp_db.model.documents import Document
from freqdp_db.progress import Progress


@dataclass(frozen=True)
class PublishResult(Document):
    """What changed in the database for analysts."""

    copied: list[str]
    unchanged: list[str]
    removed: list[str]
    waiting: list[str]
    """What could not be dropped or shown yet, and why: the next run does that."""

    def lines(self) -> list[str]:
        lines = [f"Copied {name}." for name in self.copied]
        lines += [f"Removed {name}: it was withdrawn." for name in self.removed]
        lines += [f"{len(self.unchanged)} were there already."] if self.unchanged else []
        lines += [f"Waits for the next run: {what}." for what in self.waiting]
        return lines or ["Nothing to copy: no release is for analysts."]


def open_target(database: Database, to: str) -> Database:
    """The other database; its schemas are called as in this one."""
    try:
        return engine.connect(replace(database.settings, dsn=to), "release publish")
    except BadInput:
        # its words are those of --dsn; nothing of it is repeated, as it may hold a password
        raise BadInput(
            "[[to]] is not a connection string",
            remedy="write postgresql://user@host:5432/database, or host=... dbname=... user=...",
        ) from None
    except ConnectionFailed as error:
        raise ConnectionFailed(
            f"[[to]]: {error.text}", remedy="check [[to]], and that its server runs"
        ) from None


def publish_to(
    source: Database, target: Database, name: str | None, progress: Progress
) -> PublishResult:
    """Copy a release that analysts may read; None: all of them, and remove what is there besides.

    Again, it changes nothing. A release is copied in one transaction, and all that is read is of one
    moment. One session at a time: another one is refused.
    """
    with source.begin(snapshot=True) as connection:
        known = read_catalog(connection)
        if name is not None:
            _require_granted(name, {entry.name: entry for entry in known})
        wanted = [entry for entry in known if entry.granted and name in (None, entry.name)]
        copying.prepare(connection, target)
        with copying.only_publisher(target):
            return _copy_releases(connection, target, wanted, name, progress)


def _copy_releases(
    connection: Connection,
    target: Database,
    wanted: list[CatalogRow],
    name: str | None,
    progress: Progress,
) -> PublishResult:
    present = {_identity(entry): entry for entry in read_catalog(target)}
    ours = set(map(_identity, wanted))
    stale = [e for i, e in present.items() if i not in ours and name in (None, e.name)]
    for entry in stale:
        copying.withdraw_copy(target, entry)
    waiting = copying.finish_pending(target, [])
    copied, unchanged = [], []
    for entry in wanted:
        if (there_already := present.get(_identity(entry))) is not None:
            unchanged.append(entry.name)
            if entry != there_already:
                copying.update_entry(target, entry)
            continue
        try:
            with progress.stage(f"copy {entry.name}", entry.rows) as stage:
                copying.copy_release(connection, target, entry)
                stage.advance(entry.rows)
            copied.append(entry.name)
        except Busy as error:
            waiting.append(error.message)
    whose = dict.fromkeys((e.dataset, e.series) for e in (*wanted, *stale))
    waiting += copying.finish_pending(target, whose)
    return PublishResult(
        copied, unchanged, [entry.name for entry in stale], list(dict.fromkeys(waiting))
    )


def _identity(entry: CatalogRow) -> tuple[Any, ...]:
    """Tells a release from another one that has had the same name."""
    return entry.name, entry.version, entry.published_at, entry.ledger_head, entry.rows


def _require_granted(name: str, known: dict[str, CatalogRow]) -> None:
    if name not in known:
        raise NotFound(
            f"the catalogue has no release {name!r}",
            remedy=did_you_mean(name, list(known)) + "`freqdp release list` shows what there is; "
            "[[all]] also removes what was withdrawn",
        )
    if not known[name].granted:
        raise BadInput(
            f"release {name!r} is not for analysts: it is held, or is never granted",
            remedy="`freqdp release list` shows who may read which; a held one is granted by `freqdp "
            "release approve`",
        )
