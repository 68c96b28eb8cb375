"""Locks that only our roles can take, withdrawals in two steps, and bounds on what jobs may hold."""

from __future__ import annotations

from freqdp_db.storage.schema.revisions import run_revision

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Records that no program can read are ended or forgotten before such records are ruled out.
    run_revision(
        """
CREATE TABLE ${private}.lock (
    kind text NOT NULL,
    number int NOT NULL,
    PRIMARY KEY (kind, number)
);
COMMENT ON TABLE ${private}.lock IS 'Who works on what: a session locks the row (FOR UPDATE) of a dataset, build, release or request while it works on it.';

ALTER TABLE ${private}.release DROP CONSTRAINT release_state_check;
ALTER TABLE ${private}.release ADD CONSTRAINT release_state_check
    CHECK (state IN ('running', 'published', 'withdrawing', 'withdrawn', 'abandoned'));
COMMENT ON COLUMN ${private}.release.state IS 'running, published, withdrawing (analysts cannot read it any more, its tables are dropped as soon as nothing is in the way), withdrawn or abandoned.';

UPDATE ${private}.job_queue
SET state = 'refused', request = '{}', attempts = 0, asked_at = now(), due_at = now(), lease_until = NULL,
    started_at = NULL, ended_at = now(), error = 'its record could not be read'
WHERE NOT (jsonb_typeof(request) = 'object' AND octet_length(request::text) <= 1000000)
    OR jsonb_path_exists(request, '$.**{4}')
    OR attempts NOT BETWEEN 0 AND 1000000
    OR EXISTS (SELECT FROM unnest(ARRAY[asked_at, due_at, lease_until, started_at, ended_at]) AS t WHERE t NOT BETWEEN '1970-01-01Z' AND '9000-01-01Z');
ALTER TABLE ${private}.job_queue
    ADD CONSTRAINT job_queue_request_check CHECK (
        jsonb_typeof(request) = 'object' AND octet_length(request::text) <= 1000000 AND NOT jsonb_path_exists(request, '$.**{4}')
    ),
    ADD CONSTRAINT job_queue_attempts_check CHECK (attempts BETWEEN 0 AND 1000000),
    ADD CONSTRAINT job_queue_times_check CHECK (
        asked_at BETWEEN '1970-01-01Z' AND '9000-01-01Z' AND due_at BETWEEN '1970-01-01Z' AND '9000-01-01Z'
        AND lease_until BETWEEN '1970-01-01Z' AND '9000-01-01Z' AND started_at BETWEEN '1970-01-01Z' AND '9000-01-01Z'
        AND ended_at BETWEEN '1970-01-01Z' AND '9000-01-01Z'
    );

UPDATE ${private}.schedule
SET request = '{}', cron = left(cron, 200), timezone = left(timezone, 200), next_at = now(), last_at = NULL,
    created_at = now(), ended_at = now(), ended_reason = 'its record could not be read'
WHERE NOT (jsonb_typeof(request) = 'object' AND octet_length(request::text) <= 1000000)
    OR jsonb_path_exists(request, '$.**{4}')
    OR length(cron) > 200 OR length(timezone) > 200
    OR EXISTS (SELECT FROM unnest(ARRAY[next_at, last_at, created_at, ended_at]) AS t WHERE t NOT BETWEEN '1970-01-01Z' AND '9000-01-01Z');
ALTER TABLE ${private}.schedule
    ADD CONSTRAINT schedule_request_check CHECK (
        jsonb_typeof(request) = 'object' AND octet_length(request::text) <= 1000000 AND NOT jsonb_path_exists(request, '$.**{4}')
    ),
    ADD CONSTRAINT schedule_when_check CHECK (length(cron) <= 200 AND length(timezone) <= 200),
    ADD CONSTRAINT schedule_times_check CHECK (
        next_at BETWEEN '1970-01-01Z' AND '9000-01-01Z' AND last_at BETWEEN '1970-01-01Z' AND '9000-01-01Z'
        AND created_at BETWEEN '1970-01-01Z' AND '9000-01-01Z' AND ended_at BETWEEN '1970-01-01Z' AND '9000-01-01Z'
    );

DELETE FROM ${private}.worker
WHERE EXISTS (SELECT FROM unnest(ARRAY[started_at, seen_at, stopped_at]) AS t WHERE t NOT BETWEEN '1970-01-01Z' AND '9000-01-01Z');
ALTER TABLE ${private}.worker ADD CONSTRAINT worker_times_check CHECK (
    started_at BETWEEN '1970-01-01Z' AND '9000-01-01Z' AND seen_at BETWEEN '1970-01-01Z' AND '9000-01-01Z'
    AND stopped_at BETWEEN '1970-01-01Z' AND '9000-01-01Z'
);

DELETE FROM ${private}.job_progress
WHERE EXISTS (SELECT FROM unnest(ARRAY[phase_at, updated_at]) AS t WHERE t NOT BETWEEN '1970-01-01Z' AND '9000-01-01Z');
ALTER TABLE ${private}.job_progress ADD CONSTRAINT job_progress_times_check CHECK (
    phase_at BETWEEN '1970-01-01Z' AND '9000-01-01Z' AND updated_at BETWEEN '1970-01-01Z' AND '9000-01-01Z'
);
"""
    )


def downgrade() -> None:
    raise RuntimeError("freqdp does not downgrade: restore a backup")
