"""When a schedule is due: five cron fields, read in a time zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from freqdp_db.errors import BadInput

_FIELDS = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of the month", 1, 31),
    ("month", 1, 12),
    ("day of the week", 0, 7),
)
_PART = re.compile(r"(\*|(\d+)(?:-(\d+))?)(?:/(\d+))?")
_NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
}
_EXAMPLE = (
    "for example --at '0 3 * * *' (every night at three), or @hourly, @daily, @weekly, @monthly"
)
# leap days come every four or eight years; what is not due by then never is
_MOST_DAYS = 366 * 9


@dataclass(frozen=True)
class Cron:
    """Minutes, hours, days of the month, months and days of the week (0 is Sunday) that match."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """Both kinds of days are restricted: as in cron, a day that one of them names matches."""

    @classmethod
    def parse(cls, text: str) -> Cron:
        words = _NAMES.get(text.strip(), text).split()
        if len(words) != len(_FIELDS):
            raise BadInput(f"--at {text!r} does not have five fields", remedy=_EXAMPLE)
        sets = [_values(text, word, *field) for word, field in zip(words, _FIELDS, strict=True)]
        weekdays = frozenset(0 if day == 7 else day for day in sets[4])
        cron = cls(
            text=" ".join(words),
            minutes=sets[0],
            hours=sets[1],
            days=sets[2],
            months=sets[3],
            weekdays=weekdays,
            either_day=words[2][0] != "*" and words[4][0] != "*",
        )
        try:
            cron.next_after(datetime(2024, 1, 1, tzinfo=UTC), ZoneInfo("UTC"))
        except LookupError:
            raise BadInput(f"--at {text!r} names a day that never comes", remedy=_EXAMPLE) from None
        return cron

    def next_after(self, moment: datetime, zone: ZoneInfo) -> datetime:
        """The first due moment after this one, in UTC.

        A time that the clock skips in spring is due right after the gap; one that comes twice in
        autumn is due the first time.
        """
        local = moment.astimezone(zone).date()
        for day in (local + timedelta(days=n) for n in range(_MOST_DAYS)):
            if not self._on(day):
                continue
            for hour in sorted(self.hours):
                for minute in sorted(self.minutes):
                    wall = datetime.combine(day, time(hour, minute), zone)
                    due = wall.astimezone(UTC)
                    if due > moment:
                        return due
        raise LookupError(self.text)

    def _on(self, day: date) -> bool:
        in_month = day.day in self.days
        in_week = day.isoweekday() % 7 in self.weekdays
        fits = in_month or in_week if self.either_day else in_month and in_week
        return day.month in self.months and fits


def find_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadInput(
            f"--timezone {name!r} is not known here", remedy="for example UTC or Europe/Brussels"
        ) from None


def _values(text: str, word: str, what: str, least: int, most: int) -> frozenset[int]:
    found: set[int] = set()
    for part in word.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise BadInput(f"--at {text!r}: {part!r} is not a {what}", remedy=_EXAMPLE)
        step = int(match[4] or 1)
        first, last = (
            (least, most) if match[1] == "*" else (int(match[2]), int(match[3] or match[2]))
        )
        if match[4] and match[1] != "*" and match[3] is None:
            last = most  # 5/15: from 5 on
        if not (least <= first <= last <= most and step >= 1):
            raise BadInput(
                f"--at {text!r}: {part!r} is not a {what} from {least} to {most}", remedy=_EXAMPLE
            )
        found.update(range(first, last + 1, step))
    return frozenset(found)
