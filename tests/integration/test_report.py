"""The report: complete, self-contained, and without originals when it is public."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from servers import SharedServer, cloned
from world import anonymize, as_role, freqdp, query, report, value

KINDS = {"swapped": "lg+swap", "pieces": "cut", "areas": "glove", "made_up": "strict"}
"""Releases of the other kinds, and their methods."""
_ASKED = {
    "swapped": ("--beside", "r"),
    "pieces": ("--beside", "r,swapped"),
    "areas": ("--k", "3"),
    "made_up": ("--size", "100"),
}
_PUBLIC = ("--region", "4.2,50.75,4.5,50.95", "--period", "2024-03-04/2024-03-06")
_VOID = {"meta", "link", "img", "br", "hr", "input"}


@pytest.fixture(scope="module")
def reported(shared_server: SharedServer, city_r_db: str) -> Iterator[tuple[str, Path]]:
    """A database with a measured release and one to compare it with, and its two reports."""
    folder = shared_server.directory / "reports"

    def make(url: str) -> None:
        folder.mkdir()
        freqdp(url, "dataset", "set", "city", *_PUBLIC).succeeded()
        freqdp(url, "evaluate", "r", "--roads", "demo.roads").succeeded()
        anonymize(url, "city", "sc", "--as", "closed")
        freqdp(url, "evaluate", "closed").succeeded()
        for name, method in KINDS.items():
            anonymize(url, "city", method, "--as", name, *_ASKED[name])
            if name == "pieces":
                freqdp(url, "evaluate", name).succeeded()
            write(url, name, name)
        write(url, "own", "r", "--roads", "demo.roads")
        write(url, "public", "r", "--public")

    def write(url: str, page: str, *asked: str) -> None:
        out = ("--out", str(folder / f"{page}.html"))
        freqdp(url, "release", "report", *asked, *out).succeeded()

    with cloned(shared_server.get(), shared_server.filled("reported", make, city_r_db)) as url:
        yield url, folder


class Page(HTMLParser):
    """Collects what matters of a page; refuses tags that do not close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        assert self.open == [], self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.mark.parametrize("name", ["own", "public", *KINDS])
def test_nothing_is_fetched_and_everything_has_words(reported: tuple[str, Path], name: str) -> None:
    text = (reported[1] / f"{name}.html").read_text()
    page = Page(text)
    assert set(re.findall(r"https?://[^\s\"'<]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert not page.all("script")
    assert "@import" not in text
    assert "url(" not in text.replace("url(#", "")
    for attributes in page.all("img") + page.all("link"):
        assert (attributes.get("src") or attributes.get("href") or "").startswith("data:")
    assert all(attributes["alt"] for attributes in page.all("img"))
    assert all(a["role"] == "img" and a["aria-label"] for a in page.all("svg"))
    assert len(page.all("h1")) == 1
    assert page.all("html")[0]["lang"] == "en"


def test_the_curators_report_answers_the_three_questions(reported: tuple[str, Path]) -> None:
    url, folder = reported
    page = Page((folder / "own.html").read_text())
    for words in (
        "Could someone be found in it?",
        "Is it still good for analysis?",
        "Could the original be put back together?",
        "not differentially private",
        "closed",
        "freqdp release verify r",
    ):
        assert words in page.text, words
    # two heat maps; the map of an attack, three trajectories and two charts
    assert len(page.all("img")) == 2
    assert len(page.all("svg")) == 1 + 3 + 2
    assert "The strongest attacker, one who " in page.text, "which one depends on the draw"
    assert "A typical person. The attacker knows one sample" in page.text
    assert "freqdp recommend city" in page.text, "the way out"
    linked = value(url, "SELECT value FROM freqdp.metric WHERE release_id = 1 AND name = 'la'")
    assert f"{linked:.3f}" in page.text
    head = value(url, "SELECT ledger_head FROM freqdp_release.catalog WHERE name = 'r'")
    assert head in page.text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "own",
            "{rows:,} samples in {there:,} trajectories from dataset city with {objects:,} objects",
        ),
        ("swapped", "{rows:,} samples in {there:,} trajectories from dataset city"),
        ("areas", "{rows:,} areas of {there:,} trajectories, each for at least 3 objects, from"),
        (
            "made_up",
            "{rows:,} samples of {there:,} synthetic trips from dataset city with {objects:,} objects",
        ),
    ],
)
def test_the_head_says_what_is_in_the_table(
    reported: tuple[str, Path], name: str, said: str
) -> None:
    url, folder = reported
    table = "r" if name == "own" else name
    ((rows, there),) = query(
        url, f"SELECT count(*), count(DISTINCT trajectory_id) FROM freqdp_release.{table}"
    )
    objects = value(url, "SELECT trajectories FROM freqdp.build WHERE build_id = 1")
    head = " ".join(Page((folder / f"{name}.html").read_text()).text.split())
    assert said.format(rows=rows, there=there, objects=objects) in head
    assert ("of the original samples are left" in head) == (name == "own")


def test_no_key_of_an_object_is_on_any_page(reported: tuple[str, Path]) -> None:
    url, folder = reported
    keys = [key for (key,) in query(url, "SELECT DISTINCT object_id::text FROM demo.city")]
    assert len(keys) > 10
    for page in folder.glob("*.html"):
        text = page.read_text()
        assert [key for key in keys if key in text] == [], page.name


def test_the_public_report_has_nothing_from_originals(reported: tuple[str, Path]) -> None:
    url, folder = reported
    text = (folder / "public.html").read_text()
    page = Page(text)
    assert len(page.all("img")) == 1
    assert len(page.all("svg")) == 0
    ((samples, objects),) = query(
        url, "SELECT samples, trajectories FROM freqdp.build WHERE build_id = 1"
    )
    for secret in (
        f"{samples:,}",
        f"of {objects:,} objects",
        "before",
        "linked",
        "whole user costs",
        "attacker",
        "several ids",
    ):
        assert secret not in page.text, secret
    metrics = query(url, "SELECT name, publishable FROM freqdp.metric WHERE release_id = 1")
    codes = set(re.findall(r"<code[^>]*>([^<]+)</code>", text))
    assert {n for n, publishable in metrics if not publishable} & codes == set()
    assert "unicity" in codes


def test_the_public_report_shows_what_was_released_not_what_it_came_from(
    reported: tuple[str, Path], tmp_path: Path
) -> None:
    """Made-up places stay where they were made up: the nearest original ones would tell of people."""
    url, _ = reported
    public = report(url, "made_up", tmp_path, "--public")
    (alt,) = [a["alt"] or "" for a in Page(public).all("img")]
    ((rows, in_the_middle),) = query(
        url,
        "SELECT count(*), count(*) FILTER (WHERE ST_X(geom) BETWEEN w.x[1] AND w.x[2] AND ST_Y(geom) "
        "BETWEEN w.y[1] AND w.y[2]) FROM freqdp_release.made_up, (SELECT percentile_cont('{0.01,0.99}'"
        "::float8[]) WITHIN GROUP (ORDER BY ST_X(geom)) AS x, percentile_cont('{0.01,0.99}'::float8[]) "
        "WITHIN GROUP (ORDER BY ST_Y(geom)) AS y FROM freqdp_release.made_up) AS w",
    )
    shown = int(re.search(r"([\d,]+) samples", alt)[1].replace(",", ""))  # type: ignore[index]
    assert in_the_middle <= shown <= rows
    assert "attacker" not in Page(public).text


def test_an_analyst_writes_the_public_report(reported: tuple[str, Path], tmp_path: Path) -> None:
    url, folder = reported
    analyst = as_role(url, "analyst")
    for name in ("r", *KINDS):
        page = Page(report(analyst, name, tmp_path, "--public"))
        assert len(page.all("img")) == 1
        assert "this report by freqdp" in page.text
    # the same numbers and the same picture as the curator's
    mine, theirs = ((place).read_text() for place in (tmp_path / "r.html", folder / "public.html"))
    assert mine == theirs
    freqdp(analyst, "release", "report", "r", "--out", str(tmp_path / "no.html")).refused(
        "for curators"
    )


def test_the_public_numbers_are_those_of_evaluate(reported: tuple[str, Path]) -> None:
    url, folder = reported
    text = (folder / "public.html").read_text()
    for metric in ("unicity", "plausibility.fast", "plausibility.length_km"):
        known = value(
            url, f"SELECT value FROM freqdp.metric WHERE release_id = 1 AND name = '{metric}'"
        )
        shown = re.search(
            rf"<code>{re.escape(metric)}</code>.*?<td[^>]*>([\d.,]+)</td>", text, re.DOTALL
        )
        assert shown is not None, metric
        # what picks samples at random picks others: the released table has another order
        within = 0.1 if metric == "unicity" else 0.001
        assert float(shown[1].replace(",", "")) == pytest.approx(known, abs=within), metric
