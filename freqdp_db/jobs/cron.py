"""When a schedule is due: five cron fields, read in a time zone, by the rules of Debian's cron."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from freqdp_db.errors import BadInput

_FIELDS = 5  # cronsim would take a sixth, for seconds
_NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
}
_EXAMPLE = (
    "for example [[at]] '0 3 * * *' (every night at three), or @hourly, @daily, @weekly, @monthly"
)


@dataclass(frozen=True)
class Cron:
    """Minutes, hours, days of the month, months and days of the week (0 is Sunday) that match."""

    text: str

    @classmethod
    def parse(cls, text: str) -> Cron:
        words = _NAMES.get(text.strip(), text).split()
        if len(words) != _FIELDS:
            raise BadInput(f"[[at]] {text!r} does not have five fields", remedy=_EXAMPLE)
        cron = cls(" ".join(words))
        try:
            cron.next_after(datetime(2024, 1, 1, tzinfo=UTC), ZoneInfo("UTC"))
        except LookupError:
            raise BadInput(
                f"[[at]] {text!r} names a day that never comes", remedy=_EXAMPLE
            ) from None
        except (CronSimError, ValueError) as error:
            what = str(error).lower() if isinstance(error, CronSimError) else "bad number"
            raise BadInput(f"[[at]] {text!r}: {what}", remedy=_EXAMPLE) from None
        return cron

    def next_after(self, moment: datetime, zone: ZoneInfo) -> datetime:
        """The first due moment after this one, in UTC.

        A time of day that the clock skips in spring is due right after the gap; one that comes twice
        in autumn is due the first time. What is due every few minutes or every hour goes on as if the
        clock had not been changed.
        """
        for wall in CronSim(self.text, moment.astimezone(zone)):
            due = wall.astimezone(UTC)
            if due > moment:  # in the hour that comes twice, the first one has passed
                return due
        raise LookupError(self.text)


def find_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadInput(
            f"[[timezone]] {name!r} is not known here", remedy="for example UTC or Europe/Brussels"
        ) from None
