"""Pages and files that evaluation writes: HTML that asks nobody for anything, and nothing in the way."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from freqdp_db.errors import BadInput


def render(room: str, template: str, context: dict[str, Any]) -> str:
    """A page, from the templates of a package of evaluation."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(f"freqdp_db.evaluation.{room}", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["whole_options"] = _whole_options
    return environment.get_template(template).render(**context)


def _whole_options(words: str) -> Markup:
    """Options are not broken at their hyphens."""
    return Markup(re.sub(r"--[\w-]+", r'<span class="option">\g<0></span>', str(escape(words))))


def files_in(folder: Path, names: Iterable[str], *, overwrite: bool) -> list[Path]:
    """What will be written into a folder; refused if something is in the way."""
    files = [folder / name for name in names]
    there = [file for file in files if file.exists()]
    if there and not overwrite:
        raise BadInput(
            f"{there[0]} is there already",
            remedy="name another folder with [[out]], or say [[force]]",
        )
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"[[out]] {folder} is not a folder", remedy="name a folder")
    return files
