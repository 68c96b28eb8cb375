"""kill -9, again and again, between spend, draw, targets, edits, write and publish. Run by hand:

    python tests/crash/kill_loop.py [KILLS]

Every run is a new draw that is killed at its moment and then resumed. After each kill and after each
resumption the chain must be whole, and every release must have been paid for exactly once.
"""

from __future__ import annotations

import sys
import tempfile
from decimal import Decimal
from itertools import cycle, islice
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from harness import Driver  # noqa: E402
from servers import SharedServer, cloned  # noqa: E402
from witness import leftovers, require_whole, scene, spends  # noqa: E402
from world import ADD_CITY, freqdp, query  # noqa: E402

EPSILON = Decimal("0.5")
# "copy: lines" is a moment of the first release of a database only
MOMENTS = (
    "spent: before the lock",
    "spent: before reading",
    "spent: frequencies",
    "drawn: first",
    "drawn: amid its commit",
    "targets: first",
    "targets: first edits logged",
    "drawn: second",
    "targets: second",
    "copy: first rows",
    "copy: more rows",
    "publish: before verifying",
    "publish: before",
    "published: still locked",
    "published: before the answer",
)


def require_paid_once(url: str, releases: int) -> None:
    """As many spends as releases, one for each, and the chain whole."""
    paid = spends(url)
    assert len(paid) == len({release for release, *_ in paid}) == releases, paid
    assert {epsilon for _, epsilon, _ in paid} == {EPSILON}
    recorded = query(url, "SELECT release_id FROM freqdp.release ORDER BY 1")
    assert [row[0] for row in recorded] == sorted(release for release, *_ in paid)
    assert freqdp(url, "ledger", "verify").succeeded()["valid"] is True


def kill_once(url: str, driver: Driver, number: int, moment: str) -> None:
    before = scene(url)
    command = ("anonymize", "city", "--method", "lg", "--epsilon", str(EPSILON), "--new-draw")
    run = driver.start(url, *command, stop=moment)
    run.reach()
    run.kill()
    name = f"city_{number}"
    require_paid_once(url, number)
    now = require_whole(url, before)
    if moment.startswith("published"):
        assert (name,) in now.catalog
    else:
        assert now == before
        answer = freqdp(url, "release", "resume", name).succeeded()
        assert (answer["state"], answer["resumed"]) == ("published", True)
    require_paid_once(url, number)
    assert leftovers(url) == []
    # its tables only cost time from now on; the record and the spend stay
    freqdp(url, "release", "withdraw", name).succeeded()
    require_paid_once(url, number)


def make_city(url: str) -> None:
    for command in (
        ("load", "demo", "--objects", "30", "--days", "1"),
        (*ADD_CITY, "--budget", "1000"),
        ("dataset", "build", "city"),
    ):
        freqdp(url, *command).succeeded()


def main(kills: int) -> None:
    server = SharedServer.create()
    try:
        with (
            cloned(server.get(), server.template(schema=True)) as url,
            tempfile.TemporaryDirectory() as directory,
        ):
            make_city(url)
            with cloned(server.get(), server.template(schema=True)) as spare:
                make_city(spare)
                driver = Driver(spare, Path(directory))
            for number, moment in enumerate(islice(cycle(MOMENTS), kills), start=1):
                kill_once(url, driver, number, moment)
                print(f"{number:3} {moment}", flush=True)
            driver.close()
            print(f"{kills} kills: the chain is whole, no spend is lost, none is double")
    finally:
        server.remove()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
