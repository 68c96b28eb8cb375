"""What a guarantee, a price or a budget is for: one value of the object column of a source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProtectedUnit:
    """One object with all its data. It is a person only where the owner said so."""

    object_column: str
    relation: str
    """Both as they can be typed in SQL."""
    persons: str | None = None
    """The population whose persons the objects are, as the owner declared it."""

    @property
    def noun(self) -> str:
        """What an object is called: a bike is not a person."""
        return "object" if self.persons is None else "person"

    @property
    def column(self) -> str:
        return f"column {self.object_column} of {self.relation}"

    @property
    def words(self) -> str:
        """`one bike (column bike of fleet.ride)`, `one person of drivers (column driver of ...)`."""
        what = self.object_column if self.persons is None else f"person of {self.persons}"
        return f"one {what} ({self.column})"
