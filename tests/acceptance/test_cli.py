"""Every command: documented, one JSON document on stdout when asked, talk on stderr, exit codes."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from servers import clone_of
from world import ADD_CITY, anonymize, freqdp, try_only

from freqdp_db import __version__
from freqdp_db.cli import main
from freqdp_db.cli.demo import answer_of

COMMON = {"--dsn", "--json", "--schema", "--release-schema"}


def _tree(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield " ".join(path), command
        return
    for name, child in children.items():
        yield from _tree(child, (*path, name))


TREE = dict(_tree(typer.main.get_command(main.app)))


def test_every_command_explains_itself() -> None:
    for name, command in TREE.items():
        assert command.help and command.help.strip().endswith("."), name
        options = {word for p in command.params for word in p.opts}
        assert options >= COMMON, name
        for parameter in command.params:
            if "--help" not in parameter.opts:
                assert getattr(parameter, "help", None), f"{name}: {parameter.opts} has no help"
        code, out, _ = _run(*name.split(), "--help")
        assert code == 0 and name in out
        assert " ".join(command.help.split()[:3]) in " ".join(out.split())
        assert "<bool>" not in out and "BOOLEAN" not in out, name


def _moments(found: Any) -> Iterator[str]:
    if isinstance(found, dict | list):
        for part in found.values() if isinstance(found, dict) else found:
            yield from _moments(part)
    elif isinstance(found, str) and found[:4].isdigit() and found[4:5] == "-":
        yield found


def _run(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main.run(arguments)
    return code, out.getvalue(), err.getvalue()


city = clone_of("city_db", scope="module")


SESSION: list[tuple[tuple[str, ...], set[str] | type]] = [
    (("init",), {"created", "revision", "changed", "roles_created"}),
    (("init", "--sql"), {"sql", "from_revision"}),
    (("uninstall", "--sql"), {"sql"}),
    (("doctor",), {"ok", "findings"}),
    (("dataset", "list"), list),
    (("dataset", "show", "city"), {"name", "mapping", "budget", "build"}),
    (("dataset", "build", "city"), {"build_id", "rows", "excluded", "samples", "seconds"}),
    (("plan", "city", "--method", "lg"), {"epsilon", "allowed", "steps", "guarantee", "budget", "seconds"}),
    (("anonymize", "city", "--method", "lg", "--as", "r"), {"name", "state", "table", "guarantee", "steps",
                                         "verified", "existed", "resumed", "seconds"}),
    (("anonymize", "city", "--method", "lg", "--as", "r"), {"name", "existed"}),
    (("release", "list"), list),
    (("release", "show", "r"), {"name", "state", "spend", "unit", "guarantee", "steps", "user_level"}),
    (("release", "verify", "r"), {"release", "verified", "rows", "checked"}),
    (("release", "find", "--object", "nobody"), list),
    (("budget", "city"), {"granted", "spent", "remaining", "ledger"}),
    (("ledger", "verify"), {"valid", "head_found"}),
    (("schedule", "add", "city", "--method", "lg", "--at", "@daily"),
     {"schedule_id", "next_at", "warning"}),
    (("schedule", "list"), list),
    (("schedule", "drop", "city"), {"schedule_id", "ended"}),
    (("worker", "--once"), {"done", "refused", "failed", "cancelled", "put_off"}),
    (("jobs",), list),
    (("jobs", "--workers"), list),
    (("release", "withdraw", "r"), {"withdrawn", "was", "waits_for"}),
    (("dataset", "drop", "city"), {"dropped", "builds_removed"}),
    (ADD_CITY, {"name", "mapping", "budget", "budget_is_new"}),
]  # fmt: skip


# What a second run would refuse.
ONCE = {
    ("schedule", "add"),
    ("schedule", "drop"),
    ("release", "withdraw"),
    ("dataset", "drop"),
    ADD_CITY[:2],
}


def test_a_session_in_json_and_in_words(city: str) -> None:
    """Each answer is one document with what scripts look for; for people it is no JSON."""
    for arguments, expected in SESSION:
        document = freqdp(city, *arguments).succeeded()
        if isinstance(expected, type):
            assert isinstance(document, expected), arguments
        else:
            assert set(document) >= expected, arguments
        for moment in _moments(document):
            assert len(moment) == len("2024-01-01") or moment[10] in "T/", (arguments, moment)
        if arguments[:2] in ONCE:
            continue
        code, out, err = _run(*arguments, "--dsn", city)
        assert code == 0 and out.strip(), (arguments, err)
        with pytest.raises(json.JSONDecodeError):
            json.loads(out)
        if arguments[:2] == ("dataset", "build"):
            assert "/s" in err, "plain lines with a rate where there is no terminal"


def test_options_before_and_after_the_command(city: str) -> None:
    before = _run("--json", "--dsn", city, "dataset", "list")
    after = _run("dataset", "list", "--dsn", city, "--json")
    between = _run("--json", "dataset", "list", "--dsn", city)
    assert before == after == between
    assert before[0] == 0


def test_nothing_registered_yet(database_url: str) -> None:
    assert freqdp(database_url, "dataset", "list").succeeded() == []
    assert freqdp(database_url, "release", "list").succeeded() == []
    for group in ("dataset", "release"):
        code, out, _ = _run(group, "list", "--dsn", database_url)
        assert code == 0
        assert "Next: freqdp" in out


def test_demo(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    few = "points, 1 % of the samples, hour of day only"
    try_only(monkeypatch, "lg", "lg+cut", "cut, short pieces", few)
    answer = freqdp(database_url, "demo", "--objects", "15", "--days", "1")
    document = answer.succeeded()
    assert (document["name"], document["state"]) == ("city_1", "published")
    for command in ("init", "load demo", "dataset add", "dataset build", "recommend", "plan",
                    "anonymize", "release verify", "budget", "evaluate", "release report"):  # fmt: skip
        assert f"$ freqdp {command}" in answer.err
    assert Path(document["report"]) == tmp_path / "city_1.report.html"
    assert "Could someone be found in it?" in Path(document["report"]).read_text()
    page = Path(document["recommendation"])
    assert page == tmp_path / "recommend_city" / "recommendation.html"
    # what was recommended is what was published
    chosen = "freqdp anonymize city --method " + document["method"] + " "
    assert chosen in page.read_text()
    assert document["answer"].startswith(
        ("Answer: city_1 may be", "Answer: do not hand city_1 out")
    )
    # again, on the same city and beside another's releases: nothing is drawn and nothing spent
    freqdp(database_url, *("dataset", "add", "other", *ADD_CITY[3:])).succeeded()
    freqdp(database_url, "dataset", "build", "other").succeeded()
    anonymize(database_url, "other", "sc")
    again = freqdp(database_url, "demo", "--objects", "15", "--days", "1").succeeded()
    assert again["release_id"] == document["release_id"]
    assert Path(again["report"]) == tmp_path / "city_1.report.html"
    # on another city: beside the first one's release, which true samples join, and that is said
    second = freqdp(
        database_url, "demo", "--objects", "15", "--days", "1", "--seed", "2"
    ).succeeded()
    assert second["release_id"] != document["release_id"]
    if second["kind"] == "unlinked":
        assert any("city_current" in what for what in second["guarantee"]["not_protected"])


EXITS: list[tuple[tuple[str, ...], int]] = [
    (("--version",), 0),
    (("--help",), 0),
    (("-h",), 0),
    ((), 0),
    (("dataset",), 0),
    (("frobnicate",), 2),
    (("--frobnicate",), 2),
    (("dataset", "build"), 2),
    (("anonymize", "x", "--method", "lg", "--as"), 2),
    (("anonymize", "x", "--method", "lg", "--signature", "many"), 1),
    (("anonymize", "x", "--method", "lg", "--epsilon", "-1"), 1),
    (("dataset", "list", "--schema", "public"), 1),
    (("dataset", "list", "--dsn", "host=/no/such/place"), 1),
]


def test_exit_codes() -> None:
    for arguments, expected in EXITS:
        code, out, err = _run(*arguments)
        assert code == expected, (arguments, err)
        if arguments == ("--version",):
            assert out == f"freqdp {__version__}\n"
        if not arguments or arguments == ("dataset",):
            assert "Usage:" in out and "Commands" in out and not err


def test_the_demo_ends_with_commands_that_can_be_typed() -> None:
    measured = SimpleNamespace(verdicts=[SimpleNamespace(value=0.01)])
    answer = answer_of("city_1", "freqdp", None, measured)  # type: ignore[arg-type]
    typed = answer.partition("As a file: freqdp ")[2].partition(";")[0].split()
    assert typed == ["release", "export", "city_1", "--format", "csv"]
