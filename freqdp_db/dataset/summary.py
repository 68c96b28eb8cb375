"""A build in words, for the curator."""

from __future__ import annotations

from freqdp_db.dataset.cleaning import REASONS
from freqdp_db.storage.records.builds import BuildRow


def describe_build(build: BuildRow) -> list[str]:
    """What is in a build, and what was left out of it."""
    left_out = sum(build.excluded.values())
    lines = [
        f"Build {build.build_id}: {build.samples:,} samples of {build.trajectories:,} objects at "
        f"{build.locations:,} places ({build.snap}), {build.segments:,} distinct segments.",
        f"Read {build.rows:,} rows as of {build.snapshot_at:%Y-%m-%d %H:%M:%S %Z}; metres in SRID "
        f"{build.srid}, times in steps of {build.time_step_us / 1e6:g} s.",
    ]
    if left_out:
        lines.append(f"Left out {left_out:,} rows ({left_out / build.rows:.1%}):")
        lines += [
            f"  {build.excluded[reason]:>12,}  {words}"
            for reason, words in REASONS.items()
            if build.excluded.get(reason)
        ]
    return lines
