"""Why a server let nobody in, in its own words, and what can be done about it."""

from __future__ import annotations

import re

from freqdp_db.errors import ConnectionFailed

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
    for pattern, remedy in _REMEDIES:
        found = pattern.search(reason)
        if found is not None:
            return ConnectionFailed(
                f"the server refused the connection: {_plain(reason)}",
                remedy=remedy.format(**found.groupdict()),
            )
    if said:
        return ConnectionFailed(
            f"the server refused the connection: {_plain(reason)}", remedy=_ELSEWHERE
        )
    why = text.strip().splitlines()[0] if text.strip() else "connection lost"
    return ConnectionFailed(f"the database cannot be reached: {why}", remedy=_ELSEWHERE)


def _plain(reason: str) -> str:
    """Of a refusal by libpq itself, what comes after the address."""
    return reason.splitlines()[0].rpartition("failed: ")[2] or reason
