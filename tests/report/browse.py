"""Open a report in headless Chromium, wide, narrow and dark, and print it: no message on the
console, no request out, nothing wider than the window.

    python tests/report/browse.py city_1.report.html [folder for the pictures]

Run by hand, where there is a Chromium. Exit 1 if the page complained or asked for anything.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_DARK = "--blink-settings=preferredColorScheme=0"
VIEWS = {
    "1280": ["--window-size=1280,{height}"],
    "390": ["--window-size=390,{height}"],
    "dark": ["--window-size=1280,{height}", _DARK],
    "print": [],
}
_HEIGHT = {"390": 16_000}
_USUAL_HEIGHT = 7_000


def _run(page: Path, folder: str, options: list[str]) -> tuple[str, list[str]]:
    """What the browser wrote on stdout, and what was wrong, if anything."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    assert browser is not None, "there is no chromium here"
    log = Path(folder) / "net.json"
    done = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--no-first-run", f"--user-data-dir={folder}/profile", "--enable-logging=stderr",
            f"--log-net-log={log}", *options, page.resolve().as_uri(),
        ],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    wrong = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    # the log may end in the middle of an event when the browser closes
    asked = set(re.findall(r'"url":\s*"(https?://[^"]+)"', log.read_text()))
    # what the browser asks its maker for is not the page's doing
    own = re.compile(r"https?://([a-z0-9-]+\.)*(google|googleapis|gvt1)\.com/")
    wrong += [f"asked for {json.dumps(url)}" for url in asked if not own.match(url)]
    return done.stdout, wrong


def browse(page: Path, view: str, picture: Path) -> list[str]:
    """What was wrong, if anything."""
    height = str(_HEIGHT.get(view, _USUAL_HEIGHT))
    options = [option.format(height=height) for option in VIEWS[view]]
    shot = f"--print-to-pdf={picture}" if view == "print" else f"--screenshot={picture}"
    with tempfile.TemporaryDirectory() as folder:
        _, wrong = _run(page, folder, [*options, shot])
    if not picture.exists():
        wrong.append("no picture")
    return wrong


def overflow(page: Path, width: int) -> list[str]:
    """Whether the page is wider than a window of this width: then a phone has to be moved sideways."""
    with tempfile.TemporaryDirectory() as folder:
        # in a frame: a window of its own is never as narrow as a phone
        outer = Path(folder) / "outer.html"
        outer.write_text(
            f'<iframe id="f" src="{page.resolve().as_uri()}" style="width:{width}px;height:900px;'
            'border:0"></iframe><script>onload = () => { document.title = document.getElementById'
            '("f").contentDocument.documentElement.scrollWidth }</script>'
        )
        found, _ = _run(
            outer, folder, ["--allow-file-access-from-files", "--disable-web-security",
                            "--window-size=1280,1000", "--dump-dom"]
        )  # fmt: skip
    title = re.search(r"<title>(\d+)</title>", found)
    assert title is not None, "the page could not be measured"
    wide = int(title[1])
    return [f"{wide} pixels wide in a window of {width}"] if wide > width else []


def main() -> int:
    page = Path(sys.argv[1])
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else Path()
    code = 0
    for view in VIEWS:
        picture = folder / f"{page.stem}-{view}.{'pdf' if view == 'print' else 'png'}"
        wrong = browse(page, view, picture)
        if view.isdigit():
            wrong += overflow(page, int(view))
        code = code or int(bool(wrong))
        print(view, picture, "; ".join(wrong) or "nothing on the console, no request")
    return code


if __name__ == "__main__":
    sys.exit(main())
