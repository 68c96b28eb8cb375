"""TAB in a shell: methods, datasets and releases, and never a server that is started for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from servers import SharedServer, cloned
from world import city_template, freqdp

PROGRAM = "import sys; sys.argv[0] = 'freqdp'; from freqdp_db.cli.main import main; main()"


def _completed(line: str, **environment: str) -> list[str]:
    """What bash would be offered at the end of this line."""
    words = line.split(" ")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith(("PG", "DATABASE_URL"))},
            "_FREQDP_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
            **environment,
        },
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.fixture(scope="module")
def url(shared_server: SharedServer, pytestconfig: pytest.Config) -> object:
    with cloned(shared_server.get(), city_template(shared_server, pytestconfig)) as url:
        for options in (("--as", "held_one", "--hold"), ("--as", "open_one", "--new-draw")):
            freqdp(url, "anonymize", "city", "--epsilon", "0.5", *options).succeeded()
        yield url


def test_methods() -> None:
    assert {"lg", "swap", "strict"} <= set(_completed("freqdp anonymize d --method "))
    assert _completed("freqdp plan d --method lg+s") == ["lg+swap"]


def test_names(url: str) -> None:
    assert _completed("freqdp dataset build c", DATABASE_URL=url) == ["city"]
    assert _completed("freqdp release verify ", DATABASE_URL=url) == ["held_one", "open_one"]
    assert _completed("freqdp release approve ", DATABASE_URL=url) == ["held_one"]
    assert _completed("freqdp release resume ", DATABASE_URL=url) == []


def test_nothing_is_started_and_nothing_said(tmp_path: Path) -> None:
    place = tmp_path / "server"
    assert _completed("freqdp dataset build ", FREQDP_DATA_DIR=str(place)) == []
    assert not place.exists()
    gone = "postgresql://nobody@127.0.0.1:1/none"
    assert _completed("freqdp dataset build ", DATABASE_URL=gone) == []
