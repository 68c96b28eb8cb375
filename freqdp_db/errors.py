"""Every error a person can meet. The tree:

    FreqdpError                  exit code 1: refused with a reason
      ServerNotFound             no PostgreSQL with PostGIS on this machine
      ServerFailed               the embedded server did not start or stop
      ConnectionFailed           the database cannot be reached, or went away
      PermissionMissing          a right or an extension is missing
      SchemaMissing              `freqdp init` has not been run here
      SchemaStale                the schema is older or newer than the software
      SchemaInUse                an object of the user's hangs on one of ours
      BadInput                   a value that was given is not acceptable
      NotFound                   a dataset, build or release of that name does not exist
      AlreadyExists              that name is taken
      BadData                    the source relation's rows cannot be used
      BudgetExceeded             the ledger says no
      TooExposed                 measured above the limit of its dataset
      Busy                       somebody else is at it; names the holder
      ResumeRefused              stored targets and recomputed edits disagree
      ServerRefused              the server said no for a reason of its own (disk full, cancelled)
      EngineLost                 the workers that --engine names cannot be reached, or went away
    VerificationFailed           exit code 3: a release is not what its log says
    Interrupted                  exit code 130: Ctrl-C or SIGTERM

A message says what was wrong and with which value; `remedy` says what to do about it. Both are
written with options (`--time-step 0s is not ...`). The command line prints them so (`as_options`);
Python, SQL and the records of jobs know the same parameter by its key (`time_step`).
"""

from __future__ import annotations

import re

# What is quoted, a value or a command, is left as it is.
_OPTION = re.compile(
    r"`[^`]*`"
    r"|(?<!\w)'(?:[^'\\]|\\.)*'"
    r'|(?<!\w)"(?:[^"\\]|\\.)*"'
    r"|(?<![\w-])--(?P<name>[a-z]+(?:-[a-z]+)*)"
)
_RESERVED = {"as": "name", "for": "purpose", "from": "source", "raise": "amount"}
"""Options that are no names in Python, and what stands for them there."""


def key_of(option: str) -> str:
    """The key of an option: `--time-step` is `time_step`."""
    name = option.removeprefix("--").replace("-", "_")
    return _RESERVED.get(name, name)


def _in_keys(text: str) -> str:
    return _OPTION.sub(lambda found: key_of(found["name"]) if found["name"] else found[0], text)


def _named(text: str) -> str | None:
    """The key of the first option that a text names."""
    return next((key_of(f["name"]) for f in _OPTION.finditer(text) if f["name"]), None)


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
        self._written = message or (type(self).__doc__ or "").strip(), remedy
        self.message = _in_keys(self._written[0])
        self.remedy = None if remedy is None else _in_keys(remedy)
        self.parameter = parameter or _named(self._written[0])
        """The key of the parameter whose value is refused, if it is one's."""
        if can_pass is not None:
            self.can_pass = can_pass
        super().__init__(self.message)

    @property
    def told(self) -> str:
        """For the records of jobs: what was wrong, and what to do."""
        return self.message if self.remedy is None else f"{self.message} -> {self.remedy}"

    def as_options(self) -> dict[str, str | None]:
        """For the command line: parameters are spelled as options."""
        message, remedy = self._written
        return {"error": type(self).__name__, "message": message, "remedy": remedy}


class ServerNotFound(FreqdpError):
    """No PostgreSQL server with PostGIS was found on this machine."""


class ServerFailed(FreqdpError):
    """The embedded server did not start or stop."""


class ConnectionFailed(FreqdpError):
    """The database cannot be reached."""

    can_pass = True


class PermissionMissing(FreqdpError):
    """A right on the server is missing."""


class SchemaMissing(FreqdpError):
    """This database has no freqdp schema yet."""


class SchemaStale(FreqdpError):
    """The freqdp schema in this database does not belong to this version of the software."""


class SchemaInUse(FreqdpError):
    """Something that is not ours depends on an object that the upgrade replaces."""


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
        super().__init__(remedy="the same command again goes on where it stopped, or starts anew")


class NotReplayable(FreqdpError):
    """The release was drawn by a version whose draws this one cannot carry out again."""


class VerificationFailed(FreqdpError):
    """The release is not what its edit log says."""

    exit_code = 3
