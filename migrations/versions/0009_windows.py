"""Units of a person and a time, windows of a dataset, and series of releases."""

from __future__ import annotations

from freqdp_db.db.revisions import run_revision

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_revision(
        """
ALTER TABLE ${private}.population
    ADD COLUMN unit text NOT NULL DEFAULT 'person' CHECK (unit IN ('person', 'person-day', 'person-week', 'person-month')),
    ADD COLUMN timezone text NOT NULL DEFAULT 'UTC';
COMMENT ON COLUMN ${private}.population.unit IS 'What guarantees for its persons are for: all data of a person, or what lies in one day, week (from Monday) or month.';
COMMENT ON COLUMN ${private}.population.timezone IS 'The zone whose days, weeks and months these are.';

ALTER TABLE ${private}.build
    ADD COLUMN time_window text,
    ADD COLUMN window_begin timestamptz,
    ADD COLUMN window_end timestamptz,
    ADD CHECK (num_nonnulls(time_window, window_begin, window_end) IN (0, 3) AND window_begin < window_end);
COMMENT ON COLUMN ${private}.build.time_window IS 'The day (2024-05-06), week (2024-W19) or month (2024-05) whose rows were read, in the time zone of the dataset. NULL: all rows.';
COMMENT ON COLUMN ${private}.build.window_begin IS 'Where that begins.';
COMMENT ON COLUMN ${private}.build.window_end IS 'Where it ends: not in it.';

ALTER TABLE ${private}.spend ADD COLUMN during tstzrange;
COMMENT ON COLUMN ${private}.spend.during IS 'The time whose data it was spent on, in whole units. NULL: all of it. What is spent on times that do not overlap does not add up.';

ALTER TABLE ${private}.release ADD COLUMN series text;
COMMENT ON COLUMN ${private}.release.series IS 'The series whose window it is. NULL: it stands by itself.';

ALTER TABLE ${private}.schedule ADD COLUMN next_window text;
COMMENT ON COLUMN ${private}.schedule.next_window IS 'The window that is asked for next, once it has ended. NULL: releases of all rows.';

ALTER TABLE ${release}.catalog ADD COLUMN time_window text, ADD COLUMN series text;
COMMENT ON COLUMN ${release}.catalog.time_window IS 'The day, week or month that the release covers. NULL: all data.';
COMMENT ON COLUMN ${release}.catalog.series IS 'The series that it is a window of: see the table series. NULL: none.';

CREATE TABLE ${release}.series (
    name text PRIMARY KEY,
    dataset text NOT NULL,
    every text NOT NULL CHECK (every IN ('day', 'week', 'month')),
    timezone text NOT NULL,
    method text NOT NULL,
    kind text NOT NULL,
    relations text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE ${release}.series IS 'Tables that grow by a release for each day, week or month. The catalogue has a row for each window.';
COMMENT ON COLUMN ${release}.series.name IS 'Of the series, and of its first table.';
COMMENT ON COLUMN ${release}.series.dataset IS 'What it is made from.';
COMMENT ON COLUMN ${release}.series.every IS 'What one window is: day, week (from Monday) or month.';
COMMENT ON COLUMN ${release}.series.timezone IS 'The zone whose days these are.';
COMMENT ON COLUMN ${release}.series.method IS 'How all its windows are made.';
COMMENT ON COLUMN ${release}.series.kind IS 'What a released trajectory is.';
COMMENT ON COLUMN ${release}.series.relations IS 'Its tables, in this schema, partitioned by window_start.';
COMMENT ON COLUMN ${release}.series.created_at IS 'When its first window was published.';
"""
    )


def downgrade() -> None:
    raise RuntimeError("freqdp does not downgrade: restore a backup")
