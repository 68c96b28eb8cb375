"""Hooks of MkDocs: pages that live elsewhere in the repository, and those that come from the code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import freqdp_db
from freqdp_db.api import Freqdp
from freqdp_db.cli.main import app
from freqdp_db.commands import parameters_of
from freqdp_db.configuration import keys_of
from freqdp_db.errors import in_keys

ROOT = Path(__file__).parent.parent
# Where each of these stands in the repository, and what it is called in the site.
ELSEWHERE = {
    "README.md": "overview.md",
    "PRIVACY.md": "PRIVACY.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "docker/OPERATING.md": "OPERATING.md",
    "recipes/README.md": "recipes.md",
}
_LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)]*)?\)")
_EXAMPLE = re.compile(r"^-- example:\n((?:--   .*\n)+)", re.MULTILINE)
_COMMENT = re.compile(r"COMMENT ON (\w+) (\S+?)(?:\(([^)]*)\))? IS\s*'((?:[^']|'')*)'", re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    pages = {name: (ROOT / path).read_text("utf-8") for path, name in ELSEWHERE.items()}
    pages |= {
        "reference/commands.md": commands_page(),
        "reference/sql.md": sql_page(),
        "reference/python.md": python_page(),
        "reference/configuration.md": configuration_page(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Links that hold in the repository, as they are in the site."""
    own = page.file.src_uri
    home = next((path for path, name in ELSEWHERE.items() if name == own), f"docs/{own}")

    def moved(found: re.Match[str]) -> str:
        opening, target, anchor = found.groups()
        if "://" in target:
            return found[0]
        path = (ROOT / home).parent.joinpath(target).resolve()
        inside = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else target
        if inside in ELSEWHERE:
            name = ELSEWHERE[inside]
        elif inside.startswith("docs/"):
            name = inside.removeprefix("docs/")
        else:  # a file of the repository that is no page, such as the licence
            return (
                "](https://spdx.org/licenses/Apache-2.0.html)" if inside == "LICENSE" else found[0]
            )
        up = "../" * own.count("/")
        return f"{opening}{up}{name}{anchor or ''})"

    return _LINK.sub(moved, markdown)


def on_page_content(html: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """No line break after the hyphens of an option."""
    whole = r'<code>\1<span class="option">\2</span>'
    return re.sub(r"<code>((?:[^<]*\s)?)(--[a-z-]+)", whole, html)


def commands_page() -> str:
    """Every command with its options, from what `--help` shows."""
    leaves = list(_leaves(typer.main.get_command(app)))
    common = [o for o in _options(leaves[0][1]) if _panel(o) == _COMMON_PANEL]
    lines = [
        "# Commands",
        "",
        "What `--help` says, command by command. Every command takes these:",
        "",
    ]
    lines += [*_option_table(common), ""]
    for path, command in leaves:
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        words = " ".join(["freqdp", *path, *(a.name.upper() for a in arguments)])
        lines += [f"## freqdp {' '.join(path)}", "", _cell(command.help or ""), ""]
        lines += [f"`{words} [OPTIONS]`", ""]
        panels: dict[str, list[Any]] = {}
        for option in _options(command):
            panels.setdefault(_panel(option), []).append(option)
        panels.pop(_COMMON_PANEL, None)
        for panel, options in panels.items():
            lines += [f"**{panel}**", ""] if panel else []
            lines += [*_option_table(options), ""]
    return "\n".join(lines)


_COMMON_PANEL = "Every command"


def _options(command: Any) -> list[Any]:
    return [p for p in command.params if p.param_type_name == "option" and not p.hidden]


def _panel(option: Any) -> str:
    """The heading that an option has in `--help`; empty: the first."""
    return getattr(option, "rich_help_panel", None) or ""


def _option_table(options: list[Any]) -> list[str]:
    rows = [
        f"| `{', '.join(o.opts)}`{'' if o.is_flag else ' …'} | {_cell(o.help or '')}{_default(o)} |"
        for o in options
    ]
    return ["| option | what |", "|---|---|", *rows]


def _leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from _leaves(child, (*path, name))


def _default(option: Any) -> str:
    if option.is_flag or option.default in (None, False) or not option.show_default:
        return ""
    return f" Default: `{option.default}`."


def _cell(text: str) -> str:
    """Text on one line, that Markdown leaves as it is."""
    return " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;").replace("*", r"\*")


def sql_page() -> str:
    """Views and functions of the private schema, from the comments in sql/."""
    lines = [
        "# SQL", "", "Views and functions of the private schema, here called `freqdp`. Roles decide who "
        "may use them. Those with an example are for you to call; freqdp itself calls the others. Released "
        "tables are in [Tables](tables.md).", "",
    ]  # fmt: skip
    for folder in sorted(p for p in (ROOT / "sql").iterdir() if p.is_dir()):
        lines += [f"## {folder.name}", ""]
        for file in sorted(folder.glob("*.sql")):
            lines += _sql_object(file)
    return "\n".join(lines)


def _sql_object(file: Path) -> Iterator[str]:
    text = file.read_text("utf-8").replace("${private}", "freqdp").replace("${postgis}.", "")
    text = text.replace("${release}", "freqdp_release")
    name, kind = file.name.split("_", 1)[1].split(".")[:2]
    head = re.search(
        rf"CREATE {kind.upper()} (\w+)\.{name}\s*(\(.*?\))\s*\n?\s*RETURNS", text, re.DOTALL
    )
    schema, signature = (head[1], " ".join(head[2].split())) if head else ("freqdp", "")
    yield f"### {name}"
    yield ""
    yield f"`{kind} {schema}.{name}{signature}`"
    yield ""
    for what, on, _, comment in _COMMENT.findall(text):
        said = _cell(comment.replace("''", "'"))
        yield f"- `{on.rpartition('.')[2]}`: {said}" if what == "COLUMN" else said
        if what != "COLUMN":
            yield ""
    yield ""
    if example := sql_example(text):
        yield from ("```sql", example, "```", "")


def sql_example(text: str) -> str | None:
    """The statement after `-- example:` in a file of sql/, if it has one."""
    found = _EXAMPLE.search(text)
    return found and found[1].replace("--   ", "").rstrip()


def python_page() -> str:
    """`connect`, and every verb of the object that it gives."""
    lines = ["# Python", "", inspect.getdoc(freqdp_db) or "", ""]
    lines += [
        *_function(freqdp_db.connect),
        "```text",
        inspect.getdoc(freqdp_db.connect) or "",
        "```",
        "",
    ]
    verbs = [verb for owner in Freqdp.__mro__ for verb in vars(owner).values()]
    for verb in verbs:
        if not inspect.isfunction(verb) or verb.__name__.startswith("_"):
            continue
        lines += [*_function(verb), _cell(inspect.getdoc(verb) or ""), ""]
        declared, of_methods = parameters_of(verb)
        if declared or of_methods:
            lines += ["| parameter | what |", "|---|---|"]
            lines += [f"| `{p.name}` | {_cell(in_keys(p.says.help))} |" for p in declared]
        if of_methods:
            lines.append(
                '| `**parameters` | Those of the method: `epsilon=1`, `time_step="60s"`. |'
            )
        lines.append("")
    return "\n".join(lines)


def configuration_page() -> str:
    """The keys of freqdp.toml, which are parameters of two verbs."""
    lines = [
        "# freqdp.toml",
        "",
        "What `freqdp apply` brings about. Each dataset and its schedule is a table; further schedules "
        "of it are tables `[datasets.NAME.schedules.OTHER]` with the same keys.",
        "",
    ]
    tables = {"[datasets.NAME]": Freqdp.add_dataset, "[datasets.NAME.schedule]": Freqdp.schedule}
    for title, verb in tables.items():
        lines += [f"## {title}", "", "| key | what |", "|---|---|"]
        lines += [
            f"| `{key}` | {_cell(in_keys(p.says.help))} |" for key, p in keys_of(verb).items()
        ]
        lines.append("")
    return "\n".join([*lines, "A schedule takes the parameters of its method, too: `epsilon = 1`."])


def _function(verb: Any) -> list[str]:
    """A heading and the signature, without what is said of the parameters below."""
    found = inspect.signature(verb)
    parameters = [
        p.replace(annotation=_plain(p.annotation))
        for p in found.parameters.values()
        if p.name != "self"
    ]
    signature = str(found.replace(parameters=parameters)).replace("freqdp_db.", "")
    return [f"## {verb.__name__}", "", "```python", f"{verb.__name__}{signature}", "```", ""]


def _plain(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
