"""What the brute force checked and what it found wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, LiteralString

from replayed_states import Replay

_SHOWN = 5


@dataclass
class Findings:
    """How much was checked, by kind, and what was found wrong."""

    checked: dict[str, int] = field(default_factory=dict)
    mismatches: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, what: str, checked: int, wrong: list[Any]) -> None:
        self.checked[what] = self.checked.get(what, 0) + checked
        self.mismatches.setdefault(what, []).extend(wrong)

    @property
    def wrong(self) -> int:
        return sum(map(len, self.mismatches.values()))

    def lines(self) -> list[str]:
        result = []
        for what, count in self.checked.items():
            bad = self.mismatches[what]
            result.append(f"{what:<44} {count:>10,} checked  {len(bad):>6,} wrong")
            result += [f"    {row}" for row in bad[:_SHOWN]]
        return result


def compare(
    replay: Replay, findings: Findings, what: str, count: LiteralString, wrong: LiteralString,
    **values: Any,
) -> None:  # fmt: skip
    ((checked,),) = replay.run(count, **values)
    findings.add(what, checked, replay.run(wrong, **values))
