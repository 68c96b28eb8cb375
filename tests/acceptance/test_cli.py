"""Every command: documented, one JSON document on stdout when asked, talk on stderr, exit codes."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import typer
from servers import SharedServer, cloned
from world import ADD_CITY, city_template, freqdp, query

from freqdp_db import __version__
from freqdp_db.cli import main
from freqdp_db.cli.demo import answer_of

# The interface of DESIGN section 5 as far as it is built; scripts of others rely on these names.
COMMANDS = {
    "db start", "db stop", "db status", "db url", "db psql", "init", "doctor", "load demo",
    "load csv", "load tdrive", "load geolife", "load roads", "dataset add", "dataset build",
    "dataset list", "dataset show", "dataset drop", "plan", "anonymize", "release list",
    "release show", "release verify", "release resume", "release withdraw", "release export",
    "release find", "budget", "ledger verify", "audit", "demo", "bench search", "bench pipeline",
    "evaluate", "match", "experiment", "recommend", "release report", "worker", "jobs", "schedule add",
    "schedule list", "schedule drop", "dataset set", "release approve", "apply", "uninstall",
    "release publish",
}  # fmt: skip
COMMON = ("--dsn", "--json", "--schema", "--release-schema")
OPTIONS = {
    "dataset add": ("--from", "--object", "--time", "--geom", "--lon", "--lat", "--snap", "--srid",
                    "--timezone", "--where", "--budget"),
    "anonymize": ("--method", "--epsilon", "--epsilon-global", "--epsilon-local", "--signature",
                  "--spread", "--time-step", "--as", "--new-draw", "--hold", "--seed", "--memory"),
    "plan": ("--method", "--epsilon", "--epsilon-global", "--epsilon-local", "--signature",
             "--spread", "--time-step"),
    "budget": ("--raise", "--reason"),
    "ledger verify": ("--head",),
    "audit": ("--method", "--epsilon", "--epsilon-global", "--epsilon-local", "--signature", "--runs"),
    "release find": ("--object",),
    "release export": ("--format", "--out", "--srid", "--force"),
    "dataset set": ("--region", "--period", "--max-exposure"),
    "release publish": ("--to", "--all"),
    "apply": ("--file", "--plan"),
    "recommend": ("--risk", "--for", "--objects", "--minutes", "--out", "--seed", "--force"),
    "init": ("--sql", "--roles"),
    "worker": ("--once", "--health", "--lease", "--grace", "--metrics", "--metrics-address"),
    "jobs": ("--job", "--cancel", "--limit", "--workers"),
    "schedule add": ("--at", "--timezone", "--keep", "--method", "--epsilon"),
}  # fmt: skip


def _tree(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield " ".join(path), command
        return
    for name, child in children.items():
        yield from _tree(child, (*path, name))


TREE = dict(_tree(typer.main.get_command(main.app)))


def test_the_interface_is_there() -> None:
    assert set(TREE) >= COMMANDS


@pytest.mark.parametrize("name", sorted(TREE))
def test_every_command_is_documented(name: str) -> None:
    command = TREE[name]
    assert command.help and command.help.strip().endswith(".")
    options = {word for p in command.params for word in p.opts if word.startswith("--")}
    assert options >= {*COMMON, *OPTIONS.get(name, ())}
    for parameter in command.params:
        if "--help" not in parameter.opts:
            assert getattr(parameter, "help", None), f"{name}: {parameter.opts} has no help"
    shown = _run(*name.split(), "--help")
    assert shown[0] == 0
    assert name in shown[1]
    assert " ".join(command.help.split()[:3]) in " ".join(shown[1].split())


@pytest.mark.parametrize("words", [(), ("release",)])
def test_without_a_command_there_is_the_help(words: tuple[str, ...]) -> None:
    code, out, err = _run(*words)
    assert (code, err) == (0, "")
    assert "Usage:" in out and "Commands" in out


def test_flags_are_shown_as_flags() -> None:
    for name in ("", *TREE):
        _, out, _ = _run(*name.split(), "--help")
        assert "<bool>" not in out and "BOOLEAN" not in out, name


def _moments(found: Any) -> Iterator[str]:
    if isinstance(found, dict | list):
        for part in found.values() if isinstance(found, dict) else found:
            yield from _moments(part)
    elif isinstance(found, str) and found[:4].isdigit() and found[4:5] == "-":
        yield found


@pytest.mark.parametrize("group", ["db", "load", "dataset", "release", "ledger", "schedule"])
def test_groups_show_their_commands(group: str) -> None:
    code, out, _ = _run(group, "--help")
    assert code == 0
    for name in COMMANDS:
        if name.startswith(f"{group} "):
            assert name.removeprefix(f"{group} ") in out


def _run(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main.run(arguments)
    return code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def city(shared_server: SharedServer, pytestconfig: pytest.Config) -> Iterator[str]:
    with cloned(shared_server.get(), city_template(shared_server, pytestconfig)) as url:
        yield url


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


def test_a_session_in_json(city: str) -> None:
    """Each answer is one document with what scripts look for; nothing else is on stdout."""
    for arguments, expected in SESSION:
        answer = freqdp(city, *arguments)
        document = answer.succeeded()
        if isinstance(expected, type):
            assert isinstance(document, expected), arguments
        else:
            assert set(document) >= expected, arguments
        for moment in _moments(document):
            assert len(moment) == len("2024-01-01") or moment[10] in "T/", (arguments, moment)
        # the options may as well stand at the end
        assert answer.out.count("\n") >= 1


def test_a_session_in_words(city: str) -> None:
    """The same for people: an answer on stdout that is no JSON, progress on stderr."""
    for arguments, _ in SESSION:
        code, out, err = _run(*arguments, "--dsn", city)
        assert code == 0, (arguments, err)
        assert out.strip(), arguments
        with pytest.raises(json.JSONDecodeError):
            json.loads(out)
        if (
            arguments[:2] in (("dataset", "build"), ("anonymize", "city", "--method", "lg"))
            and "answers" not in out
        ):
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


def test_init_from_nothing(empty_database_url: str) -> None:
    assert freqdp(empty_database_url, "doctor").code == 1
    assert freqdp(empty_database_url, "dataset", "list").refused("'freqdp'")["error"] == (
        "SchemaMissing"
    )
    script = freqdp(empty_database_url, "init", "--sql").succeeded()["sql"]
    assert freqdp(empty_database_url, "init").succeeded()["created"] is True
    again = freqdp(empty_database_url, "init").succeeded()
    assert (again["created"], again["changed"]) == (False, False)
    assert freqdp(empty_database_url, "doctor").succeeded()["ok"] is True
    # one transaction; what comes after it is for somebody else, and does nothing unless it is chosen
    transaction, commit, optional = script.partition("\nCOMMIT;\n")
    assert commit and transaction.startswith("BEGIN;") and "\nBEGIN;" not in transaction
    assert "REVOKE" in optional
    assert [line for line in optional.splitlines() if line and not line.startswith("--")] == []


def test_other_schema_names(empty_database_url: str) -> None:
    """Both schemas may be called otherwise; nothing is then in the default ones."""
    names = ("--schema", 'tracks "x"', "--release-schema", "Tracks out")
    small = ("load", "demo", "--objects", "12", "--days", "1")
    try:
        for arguments in (
            ("init",), small, ADD_CITY, ("dataset", "build", "city"),
            ("anonymize", "city", "--method", "lg", "--signature", "3"), ("release", "verify", "city_1"),
            ("release", "withdraw", "city_1"),
        ):  # fmt: skip
            freqdp(empty_database_url, *arguments, *names).succeeded()
        assert (
            query(
                empty_database_url, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'freqdp%%'"
            )
            == []
        )
    finally:
        with psycopg.connect(empty_database_url, autocommit=True) as connection:
            for kind in ("admin", "runner", "analyst", "auditor"):
                connection.execute(f'DROP OWNED BY "tracks ""x""_{kind}" CASCADE'.encode())
                connection.execute(f'DROP ROLE "tracks ""x""_{kind}"'.encode())


def test_demo(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
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
    freqdp(database_url, "anonymize", "other", "--method", "sc").succeeded()
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


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
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
    ],
    ids=str,
)
def test_exit_codes(arguments: tuple[str, ...], code: int) -> None:
    assert _run(*arguments)[0] == code


def test_the_demo_ends_with_commands_that_can_be_typed() -> None:
    measured = SimpleNamespace(verdicts=[SimpleNamespace(value=0.01)])
    answer = answer_of("city_1", "freqdp", None, measured)  # type: ignore[arg-type]
    typed = answer.partition("As a file: freqdp ")[2].partition(";")[0].split()
    assert typed == ["release", "export", "city_1", "--format", "csv"]


def test_as_a_process(run_cli: Any) -> None:
    """The streams and the codes of the real thing."""
    version = run_cli("--version")
    assert (version.returncode, version.stdout) == (0, f"freqdp {__version__}\n")
    load = run_cli("load", "demo", "--objects", "5", "--days", "1", "--json")
    assert load.returncode == 0
    assert json.loads(load.stdout)["objects"] == 5
    assert "objects" in load.stderr
    refused = run_cli("dataset", "build", "nothing", "--json")
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["error"] == "NotFound"
    assert refused.stderr.startswith("freqdp: there is no dataset 'nothing'\n  -> ")
