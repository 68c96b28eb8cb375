"""The database: connections, transactions, statements in them, locks beside the work, errors as ours."""

from __future__ import annotations

import json
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, lru_cache, partial
from string import Formatter
from typing import Any, LiteralString, TypeAlias, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg import sql
from psycopg.abc import Params
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.rows import kwargs_row

from freqdp_db import errors
from freqdp_db.db.names import postgis_schema
from freqdp_db.db.rights import ROLES, remedy_for
from freqdp_db.errors import BadInput, Busy, ConnectionFailed
from freqdp_db.settings import Settings, libpq_is_configured, load_settings

# Why a server let nobody in, in its own words, and what can be done about it.


_ELSEWHERE = "check [[dsn]], DATABASE_URL or the PG* variables, and that the server runs"
_SAID = re.compile(r"(?:FATAL|PANIC):\s+(?P<reason>[^\n]+)")
# What servers and libpq say in English; others are given as they are, with what can be checked always.
_REMEDIES = [
    (
        re.compile(r"password authentication failed|no password supplied|empty password"),
        "check user and password: they are given by [[dsn]], DATABASE_URL, PGPASSWORD or ~/.pgpass",
    ),
    (
        re.compile(r'[Pp]eer authentication failed for user "(?P<name>.+)"'),
        "over the socket the server lets in who is called so on this machine: run the command as "
        "{name}, or connect over TCP with a password ([[dsn]] postgresql://{name}@localhost/DATABASE)",
    ),
    (
        re.compile(r'database "(?P<name>.+)" does not exist'),
        "name one that there is in [[dsn]], DATABASE_URL or PGDATABASE, or make it: createdb {name}",
    ),
    (
        re.compile(r'role "(?P<name>.+)" (does not exist|is not permitted to log in)'),
        "name a login that there is in [[dsn]], DATABASE_URL or PGUSER, or make it: CREATE ROLE {name} "
        "LOGIN",
    ),
    (
        re.compile(r"no pg_hba.conf entry"),
        "the server's administrator can let this user in from here: a line in its pg_hba.conf",
    ),
    (
        re.compile(r"too many (connections|clients)|remaining connection slots"),
        "wait until others have left, or raise max_connections on the server",
    ),
    (re.compile(r"starting up|shutting down|recovery mode"), "wait a moment, and try again"),
]


def unreachable(text: str) -> ConnectionFailed:
    """What the driver says of a connection that failed or broke. It never holds a password."""
    said = _SAID.findall(text)
    reason = said[-1].strip() if said else text.strip()
    remedy = _ELSEWHERE if said else None
    for pattern, known in _REMEDIES:
        if (found := pattern.search(reason)) is not None:
            remedy = known.format(**found.groupdict())
            break
    if remedy is None:
        why = reason.splitlines()[0] if reason else "connection lost"
        return ConnectionFailed(f"the database cannot be reached: {why}", remedy=_ELSEWHERE)
    # of a refusal by libpq itself, what comes after the address
    plain = reason.splitlines()[0].rpartition("failed: ")[2] or reason
    return ConnectionFailed(f"the server refused the connection: {plain}", remedy=remedy)


# SQLSTATEs that our own functions raise: class QF, one code per error a person can meet.
_OWN_STATES: dict[str, type[errors.FreqdpError]] = {
    "QF001": errors.BadInput,
    "QF002": errors.NotFound,
    "QF003": errors.BudgetExceeded,
    "QF004": errors.Busy,
    "QF005": errors.VerificationFailed,
    "QF010": errors.AlreadyExists,
}
# Classes of errors whose message speaks of statements, objects and the server. Others (a value that
# does not fit, a constraint, a function of the user's or of PostGIS) can quote a row.
_ABOUT_NO_ROW = (
    "0A", "25", "26", "28", "2B", "3D", "3F", "40", "42", "53", "54", "55", "57", "58",
)  # fmt: skip
# Of these, a table, a function or operator, or a type that is not found.
_NOT_FOUND = ("42P01", "42883", "42704")
# Of these, what may be over when it is tried again: deadlocks, resources, locks, interventions.
_MAY_PASS = ("40", "53", "55", "57", "58")
# A server that vanished without a word is noticed within about a minute, where nothing else is asked
# for; left alone, psycopg waits two minutes for a connection, and TCP two hours for an answer.
_BOUNDS = {
    "connect_timeout": 20,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
# What a transaction of ours begins with. Names and operators are found in pg_catalog alone: an object that
# somebody planted in a schema of the session's path is never called. Values are read and written in one
# form, whatever the settings of the server, the database and the login are. SET LOCAL, because a setting of
# the session would stay behind at a pooler that hands out connections by the transaction.
PINNED_PATH = "SET LOCAL search_path = pg_catalog, pg_temp"
_PINNED = "; ".join(
    [
        PINNED_PATH,
        "SET LOCAL DateStyle = ISO",
        "SET LOCAL IntervalStyle = postgres",
        "SET LOCAL extra_float_digits = 1",
        "SET LOCAL bytea_output = hex",
        "SET LOCAL standard_conforming_strings = on",
        "SET LOCAL transform_null_equals = off",
        "SET LOCAL array_nulls = on",
    ]
)
_CANCEL_SECONDS = 5.0
_SECONDS_BETWEEN_CANCELS = 0.1


T = TypeVar("T")
Query: TypeAlias = LiteralString | sql.SQL | sql.Composed


class Session(ABC):
    """Where statements run: in an open transaction or, of a database, each in one of its own.

    In the text of a statement `{p}` is our private schema, `{r}` that of the releases. Further parts are
    given by name; other names in braces, such as `{st_x}`, are PostGIS's.
    """

    settings: Settings

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Connection]:
        """The open transaction, or one of the block's own."""

    def execute(
        self, query: Query, values: Params | None = None, **parts: Any
    ) -> psycopg.Cursor[Any]:
        with self.transaction() as connection:
            return connection.driver.execute(connection.text(query, **parts), values)

    def one_value(self, query: Query, values: Params | None = None, **parts: Any) -> Any:
        """The first column of the first row; None if there is no row."""
        row = self.execute(query, values, **parts).fetchone()
        return None if row is None else row[0]

    def first_column(self, query: Query, values: Params | None = None, **parts: Any) -> list[Any]:
        """The first column of all rows."""
        return [value for value, *_ in self.execute(query, values, **parts)]

    def rows_as(
        self, kind: Callable[..., T], query: Query, values: Params | None = None
    ) -> list[T]:
        """The rows, each as one of these: its columns are called as the fields."""
        with (
            self.transaction() as connection,
            connection.driver.cursor(row_factory=kwargs_row(kind)) as cursor,
        ):
            return cursor.execute(connection.text(query), values).fetchall()

    def call(self, function: str, *arguments: Any) -> Any:
        """What a function of ours gives."""
        slots = sql.SQL(", ").join([sql.Placeholder()] * len(arguments))
        query = "SELECT {p}.{function}({slots})"
        return self.one_value(query, arguments, function=sql.Identifier(function), slots=slots)


class Connection(Session):
    """An open transaction."""

    def __init__(self, core: sa.Connection, settings: Settings) -> None:
        self.core, self.settings = core, settings
        """SQLAlchemy's, for statements that are made from declared tables."""
        raw = core.connection.driver_connection
        assert isinstance(raw, psycopg.Connection)
        self.driver: psycopg.Connection[Any] = raw
        """COPY there is part of the transaction."""

    @property
    def schema(self) -> str:
        """The private one."""
        return self.settings.schema

    @property
    def release_schema(self) -> str:
        return self.settings.release_schema

    def transaction(self) -> AbstractContextManager[Connection]:
        return nullcontext(self)

    def savepoint(self) -> AbstractContextManager[object]:
        """What the block did is undone if it fails, and the transaction goes on."""
        return self.driver.transaction()

    def text(self, query: Query, **parts: Any) -> sql.Composed:
        """A statement, or a part of one, with its names in place."""
        if not isinstance(query, str):
            return sql.Composed([query])
        own = {"p": self.schema, "r": self.release_schema}
        named = {name for _, name, _, _ in Formatter().parse(query) if name} - parts.keys()
        # only a statement that needs it is refused where PostGIS is missing
        names = {
            n: sql.Identifier(own[n]) if n in own else sql.Identifier(self.postgis, n)
            for n in named
        }
        return sql.SQL(query).format(**names, **parts)

    @cached_property
    def postgis(self) -> str:
        """The schema of PostGIS, or a refusal."""
        return postgis_schema(self)

    def private_name(self, name: str) -> sql.Identifier:
        """A relation or a function of the private schema."""
        return sql.Identifier(self.schema, name)

    def select_own(
        self,
        name: str,
        columns: Iterable[str],
        *order: str,
        part: tuple[int | None, int | None] = (None, None),
        **equal: Any,
    ) -> sql.Composed:
        """Columns of a table of ours, of the rows with these values. part: of these trajectories."""
        conditions: list[sql.Composable] = [
            sql.SQL("{} = {}").format(sql.Identifier(column), value)
            for column, value in equal.items()
        ]
        query = sql.SQL("SELECT {} FROM {} WHERE {}").format(
            column_list(columns),
            self.private_name(name),
            sql.SQL(" AND ").join(conditions + in_range("trajectory_id", part)),
        )
        return query + sql.SQL(" ORDER BY ") + column_list(order) if order else query

    def as_written(self) -> None:
        """In this transaction, scans give rows in the order in which they were written."""
        # one worker, and no joining of scans that run
        self.execute("SET LOCAL synchronize_seqscans = off")
        self.execute("SET LOCAL max_parallel_workers_per_gather = 0")

    def limit_waiting(self, longest: str) -> None:
        """In this transaction, rather fail than wait longer for a lock: whoever waits holds others up."""
        self.execute("SET LOCAL lock_timeout = {longest}", longest=sql.Literal(longest))

    def never_time_out(self) -> None:
        """Let this transaction stay open beside the work, however long that takes."""
        self.execute("SET LOCAL idle_in_transaction_session_timeout = 0")

    def comment_on(self, kind: LiteralString, target: sql.Identifier, text: str) -> None:
        """Say what a TABLE, a VIEW or a COLUMN is."""
        self.execute(sql.SQL("COMMENT ON {} {} IS {}").format(sql.SQL(kind), target, text))


def column_list(names: Iterable[str]) -> sql.Composed:
    """Columns, as they stand in a list."""
    return sql.SQL(", ").join(map(sql.Identifier, names))


def in_range(column: str, ends: tuple[int | None, int | None]) -> list[sql.Composable]:
    """Conditions: from the first end on, and before the second. None: no limit there."""
    return [
        sql.SQL("{} {} {}").format(sql.Identifier(column), sql.SQL(sign), sql.Literal(end))
        for sign, end in zip((">=", "<"), ends, strict=True)
        if end is not None
    ]


class Database(Session):
    """A database that was reached; opens transactions on it."""

    def __init__(self, conninfo: str, settings: Settings, command: str) -> None:
        self.conninfo = conninfo
        self.settings = settings
        self.command = command
        self.application_name = f"freqdp {command}"[:63]
        self.engine = sa.create_engine(
            "postgresql+psycopg://",
            creator=self._open_pinned,
            # nothing is asked of the server that we do not ask ourselves
            use_native_hstore=False,
            pool_size=4,
            max_overflow=8,
            pool_reset_on_return="rollback",
            # neither a log nor an error may repeat a value
            hide_parameters=True,
        )
        sa.event.listen(self.engine, "connect", _end_first_transaction)
        self._open_connections: set[psycopg.Connection[Any]] = set()
        self.user: str | None = None
        """Who is logged in, once somebody is."""

    def open_connection(self, *, autocommit: bool = False) -> psycopg.Connection[Any]:
        """A connection beside the pool's; whoever asks for it closes it."""
        # prepare_threshold=None: server-side prepared statements strand behind PgBouncer.
        connection = psycopg.connect(
            self.conninfo,
            autocommit=autocommit,
            application_name=self.application_name,
            prepare_threshold=None,
            **_bounds(self.conninfo),
        )
        self.user = connection.info.user
        return connection

    def _open_pinned(self) -> psycopg.Connection[Any]:
        """For the pool: inside a transaction in which SQLAlchemy may look at the server."""
        connection = self.open_connection()
        _pin(connection)
        return connection

    @contextmanager
    def begin(self, *, snapshot: bool | str = False) -> Iterator[Connection]:
        """One transaction. `snapshot` asks for REPEATABLE READ, READ ONLY; a name, for an exported one."""
        with translated(self), self.engine.connect() as core:
            if snapshot:
                core = core.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            connection = Connection(core, self.settings)
            self._open_connections.add(connection.driver)
            try:
                with core.begin():
                    _pin(connection.driver)
                    if isinstance(snapshot, str):
                        connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(snapshot))
                    yield connection
            finally:
                self._open_connections.discard(connection.driver)

    def transaction(self) -> AbstractContextManager[Connection]:
        return self.begin()

    def cancel_running(self) -> None:
        """Cancel the statements that sessions of this process are waiting for."""
        for raw in list(self._open_connections):
            if raw.pgconn.transaction_status == TransactionStatus.ACTIVE:
                with suppress(psycopg.Error):
                    raw.cancel_safe(timeout=_CANCEL_SECONDS)

    @contextmanager
    def side_by_side(self, threads: int) -> Iterator[Callable[..., Future[Any]]]:
        """Gives a function that starts work in a thread with a session of its own.

        The block ends when all of it is done. If one part fails, or the block is interrupted, the
        statements of the others are cancelled: Ctrl-C does not wait for an index.
        """
        started: list[Future[Any]] = []
        with ThreadPoolExecutor(threads) as pool:

            def start(work: Callable[..., Any], *arguments: Any) -> Future[Any]:
                started.append(pool.submit(work, *arguments))
                return started[-1]

            try:
                yield start
                for part in wait(started, return_when=FIRST_EXCEPTION).done:
                    part.result()
            except BaseException:
                running = [part for part in started if not part.cancel()]
                # more than once: a thread may be between two statements
                while wait(running, timeout=_SECONDS_BETWEEN_CANCELS).not_done:
                    self.cancel_running()
                raise

    def close(self) -> None:
        self.engine.dispose()


def _bounds(conninfo: str, environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """How long to wait, where the caller has not said so; a service may say anything."""
    given = conninfo_to_dict(conninfo)
    if "service" in given or "PGSERVICE" in environ:
        return {}
    if "PGCONNECT_TIMEOUT" in environ:
        given["connect_timeout"] = environ["PGCONNECT_TIMEOUT"]
    return {name: value for name, value in _BOUNDS.items() if name not in given}


def _pin(connection: psycopg.Connection[Any]) -> None:
    """Begin a transaction with settings of ours."""
    # a server without zone files knows GMT and no other: there it is what every session has
    gmt = connection.info.parameter_status("TimeZone") == "GMT"
    connection.execute(_PINNED if gmt else f"{_PINNED}; SET LOCAL TimeZone = 'UTC'")


def _end_first_transaction(connection: psycopg.Connection[Any], _record: object) -> None:
    connection.rollback()


@contextmanager
def pinned(connection: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """One transaction on a connection beside the pool's."""
    with connection.transaction():
        _pin(connection)
        yield connection


def connect(settings: Settings, command: str = "library") -> Database:
    """Reach the database: the given DSN, else libpq's own configuration, else the embedded server."""
    if settings.dsn is not None:
        conninfo = settings.dsn.replace("postgresql+psycopg://", "postgresql://", 1)
        _require_readable(conninfo)
    elif libpq_is_configured():
        conninfo = ""
    else:
        from freqdp_db.server.embedded import EmbeddedServer

        conninfo = EmbeddedServer(settings.data_dir).ensure_running()
    database = Database(conninfo, settings, command)
    database.execute("SELECT 1")
    return database


def _require_readable(conninfo: str) -> None:
    """Refuse what libpq would misread. Nothing of it is repeated: it may hold a password."""
    try:
        conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        raise errors.BadInput(
            "[[dsn]] (or DATABASE_URL) is not a connection string",
            remedy="write postgresql://user@host:5432/database, or host=... dbname=... user=...",
        ) from None
    scheme, _, rest = conninfo.partition("://")
    place = re.split(r"[/?]", rest, maxsplit=1)[0]
    user, _, hosts = place.rpartition("@")
    ports = re.sub(r"\[[^]]*\]", "", hosts).split(",")
    if scheme in ("postgresql", "postgres") and (
        "@" in user or any(not re.fullmatch(r"[^:]*(:\d*)?", part) for part in ports)
    ):
        # libpq would take a part of the password for the host or the port, and name it in its error
        raise errors.BadInput(
            "[[dsn]] (or DATABASE_URL) is not a URL of the form postgresql://user:password@host:port/db",
            remedy="write special characters of the password as %40 (@), %2F (/), %3A (:), %3F (?), "
            "or keep it in ~/.pgpass",
        )


@contextmanager
def translated(database: Database | None = None) -> Iterator[None]:
    """Turn driver errors into ours; DETAIL and CONTEXT may hold rows and are dropped."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        if isinstance(error.orig, psycopg.Error):
            raise translate(error.orig, database) from None
        raise
    except (sa.exc.PendingRollbackError, sa.exc.ResourceClosedError):
        # what SQLAlchemy says of a connection that broke under an open transaction
        raise unreachable("connection lost") from None
    except psycopg.Error as error:
        raise translate(error, database) from None


_NAMED_IN_SQL = re.compile('"(persons|series|source|unit|window)"')
"""Parameters that messages of functions in SQL name, as who calls these writes them."""


def _marked(text: str) -> str:
    """A message of SQL as each face spells it: see `errors`."""
    return _NAMED_IN_SQL.sub(r"[[\1]]", text)


def translate(error: psycopg.Error, database: Database | None = None) -> errors.FreqdpError:
    """The error in our words; the database knows who asked."""
    state = error.sqlstate or ""
    text = (error.diag.message_primary or str(error)).strip()
    if state in _OWN_STATES:
        hint = error.diag.message_hint
        return _OWN_STATES[state](_marked(text), remedy=None if hint is None else _marked(hint))
    if state == "42501":
        if database is None:
            return errors.PermissionMissing(text, remedy=remedy_for(text, Settings(), None))
        remedy = remedy_for(text, database.settings, database.user, database.command)
        return errors.PermissionMissing(text, remedy=remedy)
    if state == "42P01" and database is not None and f'"{database.settings.schema}.' in text:
        return errors.SchemaMissing(
            f"this database has no schema {database.settings.schema!r} of freqdp's",
            remedy="connect to the database that releases are made in, or run `freqdp init` for one",
        )
    if state == "55P03":
        return errors.Busy(text, remedy="wait for the other session, or try again")
    if state == "57014":
        return errors.ServerRefused(
            f"the statement was cancelled: {text}",
            remedy="somebody cancelled it, or a timeout did; run the command again",
            can_pass=True,
        )
    if state == "53100":
        return errors.ServerRefused(
            "the disk of the database server is full",
            remedy="free space on the server, then run the command again",
            can_pass=True,
        )
    if (
        state.startswith(("08", "28", "57P"))
        or state == "3D000"
        or (isinstance(error, psycopg.OperationalError) and not state)
    ):
        return unreachable(text)
    if isinstance(error, psycopg.InterfaceError) and "connection is" in text:
        return unreachable(text)  # closed or lost, noticed before the next statement
    if not state:
        raise error  # a mistake of ours in using the driver, not the server's answer
    if state in _NOT_FOUND:
        return errors.ServerRefused(
            f"{text} (SQLSTATE {state})",
            remedy="where a view, a function that it calls or [[where]] uses it, name it there with its "
            "schema: the search_path is not asked; the server's log has the statement",
        )
    if state.startswith(_ABOUT_NO_ROW):
        return errors.ServerRefused(
            f"{text} (SQLSTATE {state})",
            remedy="the server's log has the statement",
            can_pass=state.startswith(_MAY_PASS),
        )
    return errors.BadData(
        f"the server could not use a value (SQLSTATE {state})",
        remedy="check the columns, [[where]] and the view behind [[source]]; the server's log has the "
        "value",
    )


# How functions of partitions find the database: in a worker, by its own environment.
#
# Only the names of the schemas travel to them. The connection string does not: it may hold a password, and
# what travels passes a scheduler.


@dataclass(frozen=True)
class DatabaseRef:
    """Where in its database a worker finds our tables."""

    schema: str
    release_schema: str
    _here: Database | None = field(default=None, compare=False, repr=False)
    """In the process that it was made in; it does not travel."""

    @classmethod
    def of(cls, database: Database) -> DatabaseRef:
        return cls(database.settings.schema, database.settings.release_schema, database)

    def __reduce__(self) -> tuple[type[DatabaseRef], tuple[str, str]]:
        return DatabaseRef, (self.schema, self.release_schema)

    def database(self) -> Database:
        """The database; in a worker its own, reached once in its life."""
        return _reached(self) if self._here is None else self._here


@lru_cache(maxsize=8)
def _reached(reach: DatabaseRef) -> Database:
    if not (os.environ.get("DATABASE_URL") or libpq_is_configured()):
        raise BadInput(
            "a Dask worker does not know the database",
            remedy="set DATABASE_URL or PGSERVICE in the environment of the workers",
        )
    settings = load_settings(schema=reach.schema, release_schema=reach.release_schema)
    return connect(settings, "dask worker")


# Who is connected, to what, and with which rights.


@dataclass(frozen=True)
class Login:
    """A connection as a person would name it."""

    server: str
    database: str
    user: str
    """As whom: after SET ROLE, that role."""
    roles: list[str]
    """Group roles of ours that it has."""
    superuser: bool
    there: bool
    """Both of our schemas exist."""
    sees_private: bool
    sees_released: bool

    def words(self) -> str:
        held = "superuser" if self.superuser else ", ".join(self.roles) or "none of freqdp's roles"
        return f"{self.server}, database {self.database}, user {self.user} ({held})"


def login_of(session: Session, settings: Settings) -> Login:
    query = """
        SELECT current_database() AS database, current_user AS user,
            (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS superuser,
            ARRAY(SELECT rolname::text FROM pg_roles WHERE rolname = ANY(%(roles)s)
                AND pg_has_role(current_user, oid, 'MEMBER') ORDER BY 1) AS roles,
            count(*) = 2 AS there,
            coalesce(bool_or(nspname = %(private)s AND usable), false) AS sees_private,
            coalesce(bool_or(nspname = %(released)s AND usable), false) AS sees_released
        FROM (SELECT nspname, has_schema_privilege(oid, 'USAGE') AS usable FROM pg_namespace
            WHERE nspname IN (%(private)s, %(released)s)) AS ours
        """
    names = {"private": settings.schema, "released": settings.release_schema}
    values = names | {"roles": [settings.role(kind) for kind in ROLES]}
    with session.transaction() as connection:
        info = connection.driver.info
        server = f"server at {info.host or 'the default socket'}, port {info.port}"
        (login,) = connection.rows_as(partial(Login, server), query, values)
    return login


def may_use(session: Session, schema: str) -> bool:
    """Whether names in a schema can be used."""
    return bool(session.one_value("SELECT has_schema_privilege(%s, 'USAGE')", [schema]))


def logins_of_analysts(session: Session, settings: Settings) -> list[str]:
    """Who can log in to this database as an analyst and as nothing more."""
    query = """
        SELECT l.rolname::text FROM pg_roles l JOIN pg_roles g ON g.rolname = %s
        WHERE l.rolcanlogin AND NOT l.rolsuper AND pg_has_role(l.oid, g.oid, 'MEMBER')
            AND has_database_privilege(l.oid, current_database(), 'CONNECT')
            AND NOT EXISTS (SELECT FROM pg_roles w WHERE w.rolname = %s
                AND pg_has_role(l.oid, w.oid, 'MEMBER'))
        ORDER BY 1
        """
    return session.first_column(query, [settings.role("analyst"), settings.role("runner")])


# Waiting for the database to say that there is work, where it can be heard.


class Listener:
    """A connection that LISTENs.

    Behind a pooler that hands out server connections by the transaction, notifications go astray
    without an error. A pooler answers for the server when a connection is made, so the process
    number that it gave is not the one that the server names: then `hears` is False.
    """

    def __init__(self, database: Database) -> None:
        with translated():
            self._connection: psycopg.Connection[Any] = database.open_connection(autocommit=True)
            with pinned(self._connection):
                row = self._connection.execute("SELECT pg_backend_pid()").fetchone()
            self.hears = row is not None and row[0] == self._connection.info.backend_pid
            if self.hears:
                channel = sql.Identifier(f"{database.settings.schema}_job")
                self._connection.execute(sql.SQL("LISTEN {}").format(channel))
            else:
                self._connection.close()

    def wait(self, seconds: float) -> bool:
        """Wait so long at most; True if something was heard."""
        with translated():
            return any(True for _ in self._connection.notifies(timeout=seconds, stop_after=1))

    def close(self) -> None:
        self._connection.close()


_MOST_DIGITS = 1000


# JSON whose numbers are exact: json makes floats of them, and a float is not what was asked for.


def as_json(value: Any) -> str:
    """A document as JSON text. Decimals are numbers, written out."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {as_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_json, value)) + "]"
    return json.dumps(value)


def _whole(digits: str) -> int | Decimal:
    # Python takes long numbers for an attack: converting them takes longer than their length
    return int(digits) if len(digits) <= _MOST_DIGITS else Decimal(digits)


def from_json(text: str) -> Any:
    """A document from JSON text: numbers are ints or Decimals. Raises BadInput."""
    try:
        return json.loads(text, parse_float=Decimal, parse_int=_whole)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise BadInput(
            f"a JSON document cannot be read ({type(error).__name__})",
            remedy="give one that is flat, with numbers of a usual size",
        ) from None


# Who is at work: rows of the table `lock`, locked by a transaction that stays open beside the work.
#
# Rows, because only our roles can lock them: an advisory lock can be taken by whoever may connect. When a
# process dies its connection goes, and the lock with it; that is how leftovers of a dead run are told from
# work in progress. Transactions only: what belongs to a session strands behind PgBouncer.

_MAKE = "INSERT INTO {p}.lock (kind, number) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_TAKE = "SELECT FROM {p}.lock WHERE kind = %s AND number = %s FOR UPDATE"
_TRY = _TAKE + " SKIP LOCKED"
# Who locks a row writes the number of its transaction there. Of sessions of other users, only their
# number and name can be read.
_HOLDER = (
    "SELECT format('process %%s (%%s)', a.pid, concat_ws(', ', nullif(a.application_name, ''), "
    "'user ' || a.usename, 'since ' || to_char(a.xact_start, 'YYYY-MM-DD HH24:MI:SS TZ'))) "
    "FROM {p}.lock l "
    "JOIN pg_catalog.pg_locks t ON t.locktype = 'transactionid' AND t.transactionid = l.xmax "
    "AND t.granted JOIN pg_catalog.pg_stat_activity a ON a.pid = t.pid "
    "WHERE l.kind = %s AND l.number = %s"
)
_SECONDS_BETWEEN = 0.5


@contextmanager
def hold(
    database: Database, kind: str, number: int, what: str, *, wait: bool = False
) -> Iterator[None]:
    """Hold the lock while the block runs; refuse at once, naming the holder, if somebody has it.

    `wait`: ask again until it is free. No connection is kept meanwhile: many who wait behind a pooler
    must not take all of its connections from the one who works.
    """
    database.execute(_MAKE, [kind, number])
    while True:
        with database.begin() as connection:
            connection.never_time_out()
            if connection.execute(_TRY, [kind, number]).fetchone() is not None:
                yield
                return
            by = connection.one_value(_HOLDER, [kind, number]) or "another session"
        if not wait:
            raise Busy(f"{what} is being worked on by {by}", remedy="wait until it has finished")
        time.sleep(_SECONDS_BETWEEN)


def is_free(connection: Connection, kind: str, number: int) -> bool:
    """Take the lock until the end of this transaction, if nobody holds it."""
    connection.execute(_MAKE, [kind, number])
    return connection.execute(_TRY, [kind, number]).fetchone() is not None


def wait_for(connection: Connection, kind: str, number: int = 0) -> None:
    """Take the lock until the end of this transaction, after whoever has it."""
    connection.execute(_MAKE, [kind, number])
    connection.execute(_TAKE, [kind, number])


# Tables of ours that are called by a number: which there are.


def numbers_left(database: Database, pattern: re.Pattern[str]) -> list[int]:
    """The numbers in the names of standalone tables of the private schema: the group `number`."""
    query = (
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relkind = 'r' AND NOT c.relispartition"
    )
    names = database.first_column(query, [database.settings.schema])
    return sorted({int(m["number"]) for name in names if (m := pattern.fullmatch(name))})
