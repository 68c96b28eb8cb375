"""Open a report in headless Chromium, wide and narrow: no message on the console, no request out.

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

WIDTHS = (1280, 390)
_HEIGHT = 6_000


def browse(page: Path, width: int, picture: Path) -> list[str]:
    """What was wrong, if anything."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    assert browser is not None, "there is no chromium here"
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "net.json"
        done = subprocess.run(
            [
                browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                "--disable-background-networking", "--disable-component-update",
                "--disable-sync", "--no-first-run", f"--user-data-dir={folder}/profile",
                "--enable-logging=stderr", f"--log-net-log={log}",
                f"--window-size={width},{_HEIGHT}", f"--screenshot={picture}",
                page.resolve().as_uri(),
            ],
            capture_output=True, text=True, timeout=300, check=True,
        )  # fmt: skip
        wrong = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        # the log may end in the middle of an event when the browser closes
        asked = set(re.findall(r'"url":\s*"(https?://[^"]+)"', log.read_text()))
    # what the browser asks its maker for is not the page's doing
    own = re.compile(r"https?://([a-z0-9-]+\.)*(google|googleapis|gvt1)\.com/")
    wrong += [f"asked for {json.dumps(url)}" for url in asked if not own.match(url)]
    if not picture.exists():
        wrong.append("no picture")
    return wrong


def main() -> int:
    page = Path(sys.argv[1])
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else Path()
    code = 0
    for width in WIDTHS:
        picture = folder / f"{page.stem}-{width}.png"
        wrong = browse(page, width, picture)
        code = code or int(bool(wrong))
        print(width, picture, "; ".join(wrong) or "nothing on the console, no request")
    return code


if __name__ == "__main__":
    sys.exit(main())
