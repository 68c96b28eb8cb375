"""Every error a person can meet: a `FreqdpError`, with a message, a remedy and an exit code.

A message says what was wrong and with which value; `remedy` says what to do about it. Both name a
parameter as `[[time_step]]`, and each face spells it in its own way: Python, SQL and the records of jobs
by its key (`time_step`), the command line by its option (`--time-step`). Commands are written as they are
typed: `freqdp dataset set vans --region ...`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PARAMETER = re.compile(r"\[\[(\w+(?:-\w+)*)\]\]")
_OPTIONS = {"name": "--as", "purpose": "--for", "source": "--from", "amount": "--raise"}
"""Options that would be no names in Python, by the parameter that each is there."""


def named(key: str) -> str:
    """How a message names a parameter."""
    return f"[[{key}]]"


def option_of(key: str) -> str:
    """How the command line spells a parameter: `time_step` is `--time-step`."""
    return _OPTIONS.get(key, "--" + key.replace("_", "-"))


def in_options(text: str) -> str:
    """A text that names parameters, for the command line."""
    return _PARAMETER.sub(lambda found: option_of(found[1]), text)


def in_keys(text: str) -> str:
    """The same for Python, SQL and records."""
    return _PARAMETER.sub(lambda found: found[1], text)


@dataclass(frozen=True)
class Remark:
    """A sentence of a result that names parameters as messages do; `str` and documents spell keys."""

    text: str
    """As it is written: for lines that the command line prints."""

    def __str__(self) -> str:
        return in_keys(self.text)


class FreqdpError(Exception):
    """The request was refused."""

    exit_code = 1
    can_pass = False
    """Whether the same again may succeed later: a worker tries again then."""

    def __init__(
        self,
        message: str | None = None,
        *,
        remedy: str | None = None,
        parameter: str | None = None,
        can_pass: bool | None = None,
    ) -> None:
        self.text = message or (type(self).__doc__ or "").strip()
        """What was wrong, before parameters are spelled: to be quoted by another error."""
        self.remedy_text = remedy
        self.message = in_keys(self.text)
        self.remedy = None if remedy is None else in_keys(remedy)
        named = _PARAMETER.search(self.text)
        self.parameter = parameter or (named[1] if named else None)
        """The key of the parameter whose value is refused, if it is one's."""
        if can_pass is not None:
            self.can_pass = can_pass
        super().__init__(self.message)

    @property
    def with_remedy(self) -> str:
        """For the records of jobs: what was wrong, and what to do."""
        return self.message if self.remedy is None else f"{self.message} -> {self.remedy}"

    def as_options(self) -> dict[str, str | None]:
        """For the command line: parameters are spelled as options."""
        remedy = None if self.remedy_text is None else in_options(self.remedy_text)
        return {
            "error": type(self).__name__,
            "message": in_options(self.text),
            "remedy": remedy,
        }


class ServerNotFound(FreqdpError):
    """No PostgreSQL server with PostGIS was found on this machine."""


class ServerFailed(FreqdpError):
    """The embedded server did not start or stop."""


class ConnectionFailed(FreqdpError):
    """The database cannot be reached."""

    can_pass = True


class PermissionMissing(FreqdpError):
    """A privilege on the server is missing."""


class SchemaMissing(FreqdpError):
    """This database has no freqdp schema yet."""


class SchemaStale(FreqdpError):
    """The freqdp schema in this database does not match this version of freqdp."""


class SchemaInUse(FreqdpError):
    """An object of somebody else's depends on one of freqdp's."""


class BadInput(FreqdpError):
    """A value that was given is not acceptable."""


class NotFound(FreqdpError):
    """There is nothing of that name."""


class AlreadyExists(FreqdpError):
    """That name is taken."""


class BadData(FreqdpError):
    """The rows of the source relation cannot be used."""


class BudgetExceeded(FreqdpError):
    """The privacy budget does not allow this."""


class TooExposed(FreqdpError):
    """The release was found to expose more than its dataset allows."""


class Busy(FreqdpError):
    """Another session is working on this."""

    can_pass = True


class ResumeRefused(FreqdpError):
    """The interrupted release cannot be continued from its stored targets."""


class ServerRefused(FreqdpError):
    """The database server refused the statement."""


class EngineLost(FreqdpError):
    """The workers that do the work cannot be reached."""

    can_pass = True


class Interrupted(FreqdpError):
    """interrupted; nothing partial is visible"""

    exit_code = 130

    def __init__(self) -> None:
        super().__init__(
            remedy="run the same command again: it continues where it stopped, or starts over"
        )


class NotReplayable(FreqdpError):
    """The release was drawn by a version whose draws this one cannot carry out again."""


class VerificationFailed(FreqdpError):
    """The release is not what its edit log says."""

    exit_code = 3
