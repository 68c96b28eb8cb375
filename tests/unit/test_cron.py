"""When a schedule is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from freqdp_db.errors import BadInput
from freqdp_db.jobs.schedule import Cron
from freqdp_db.jobs.worker import back_off
from freqdp_db.model.days import find_zone


@pytest.mark.parametrize(
    ("text", "zone", "after", "due"),
    [
        ("0 3 * * *", "UTC", "2024-05-06T03:00", "2024-05-07T03:00"),
        ("0 3 * * *", "UTC", "2024-05-06T02:59", "2024-05-06T03:00"),
        ("@hourly", "UTC", "2024-12-31T23:00", "2025-01-01T00:00"),
        ("*/15 8-10 * * 1-5", "UTC", "2024-05-10T10:45", "2024-05-13T08:00"),
        ("5/20 * * * *", "UTC", "2024-05-06T00:05", "2024-05-06T00:25"),
        ("0 0 29 2 *", "UTC", "2024-03-01T00:00", "2028-02-29T00:00"),
        ("0 0 * * 7", "UTC", "2024-05-06T00:00", "2024-05-12T00:00"),
        # both kinds of days: either of them, as in cron
        ("0 0 13 * 5", "UTC", "2024-05-04T00:00", "2024-05-10T00:00"),
        ("0 0 13 * 5", "UTC", "2024-05-10T00:00", "2024-05-13T00:00"),
        ("0 3 * * *", "Europe/Brussels", "2024-01-10T00:00", "2024-01-10T02:00"),
        ("0 3 * * *", "Europe/Brussels", "2024-07-10T00:00", "2024-07-10T01:00"),
        ("0 3 * * MON-FRI", "UTC", "2024-05-10T03:00", "2024-05-13T03:00"),
        # 02:30 does not exist on this day (due when the gap ends), and comes twice on that one
        ("30 2 * * *", "Europe/Brussels", "2024-03-31T00:00", "2024-03-31T01:00"),
        ("30 2 * * *", "Europe/Brussels", "2024-03-31T01:00", "2024-04-01T00:30"),
        ("30 2 * * *", "Europe/Brussels", "2024-10-27T00:00", "2024-10-27T00:30"),
        ("30 2 * * *", "Europe/Brussels", "2024-10-27T00:30", "2024-10-28T01:30"),
        ("30 2 * * *", "Europe/Brussels", "2024-10-27T01:10", "2024-10-28T01:30"),
        # every hour is every hour, whatever the clock says
        ("@hourly", "Europe/Brussels", "2024-10-27T00:00", "2024-10-27T01:00"),
        ("@hourly", "Europe/Brussels", "2024-03-31T00:00", "2024-03-31T01:00"),
        ("@daily", "Asia/Beirut", "2024-03-30T12:00", "2024-03-30T22:00"),
    ],
)
def test_next(text: str, zone: str, after: str, due: str) -> None:
    moment = datetime.fromisoformat(after).replace(tzinfo=UTC)
    expected = datetime.fromisoformat(due).replace(tzinfo=UTC)
    assert Cron.parse(text).next_after(moment, ZoneInfo(zone)) == expected


def test_every_minute_is_the_next_minute() -> None:
    cron, moment = Cron.parse("* * * * *"), datetime(2024, 2, 28, 23, 58, tzinfo=UTC)
    for _ in range(150):
        due = cron.next_after(moment, ZoneInfo("UTC"))
        assert due == moment + timedelta(minutes=1)
        moment = due


@pytest.mark.parametrize(
    "text",
    ["", "0 3 * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "x * * * *",
     "5-1 * * * *", "*/0 * * * *", "1, * * * *", "0 0 30 2 *", "@never", "-1 * * * *",
     "0 0 3 * * *", "L * * * *", "9" * 5000 + " * * * *"],
)  # fmt: skip
def test_refused(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        Cron.parse(text)
    assert caught.value.parameter == "at" and caught.value.remedy


@pytest.mark.parametrize("zone", ["Europe/Brussels", "America/Havana", "Australia/Lord_Howe"])
@pytest.mark.parametrize("text", ["30 2 * * *", "0 0 * * *", "*/20 * * * *", "15,45 1-3 * * *"])
def test_always_later(text: str, zone: str) -> None:
    """From any moment of a year, the hours that come twice included: else it would fire for ever."""
    cron, place = Cron.parse(text), ZoneInfo(zone)
    moment = datetime(2024, 1, 1, 0, 7, tzinfo=UTC)
    for _ in range(1200):
        due = cron.next_after(moment, place)
        assert moment < due < moment + timedelta(hours=26)
        moment += timedelta(hours=7, minutes=23)


def test_zones() -> None:
    assert find_zone("UTC").key == "UTC"
    for name in ("Mars", "", "../etc", "Europe/"):
        with pytest.raises(BadInput):
            find_zone(name)


def test_back_off_grows_and_stops_growing() -> None:
    assert [back_off(n) for n in (1, 2, 3, 9, 10, 40)] == [1, 2, 4, 256, 300, 300]
