"""Jobs: the queue of asked-for releases, their progress, the workers and the schedules."""

from __future__ import annotations

from freqdp_db.storage.schema.revisions import run_revision

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_revision(
        """
CREATE TABLE ${private}.schedule (
    schedule_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dataset_id int NOT NULL REFERENCES ${private}.dataset,
    request jsonb NOT NULL,
    cron text NOT NULL,
    timezone text NOT NULL,
    next_at timestamptz NOT NULL,
    last_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text NOT NULL DEFAULT session_user,
    ended_at timestamptz,
    ended_reason text,
    CHECK ((ended_at IS NULL) = (ended_reason IS NULL))
);
CREATE UNIQUE INDEX schedule_dataset_key ON ${private}.schedule (dataset_id) WHERE ended_at IS NULL;
COMMENT ON TABLE ${private}.schedule IS 'When workers ask for a new release of a dataset by themselves.';
COMMENT ON COLUMN ${private}.schedule.request IS 'What is asked for, as request_document gives it.';
COMMENT ON COLUMN ${private}.schedule.cron IS 'Five fields: minute, hour, day of month, month, day of week.';
COMMENT ON COLUMN ${private}.schedule.next_at IS 'When it is due next. Times that pass while no worker runs are made up for once.';
COMMENT ON COLUMN ${private}.schedule.ended_reason IS 'Why it asks no more: the refusal of the budget, or who ended it.';

CREATE TABLE ${private}.job_queue (
    job_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dataset_id int NOT NULL REFERENCES ${private}.dataset,
    schedule_id int REFERENCES ${private}.schedule,
    request jsonb NOT NULL,
    state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'running', 'done', 'refused', 'failed', 'cancelled')),
    asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    asked_by text NOT NULL DEFAULT session_user,
    due_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts int NOT NULL DEFAULT 0,
    worker_id int,
    lease_until timestamptz,
    cancel_asked_by text,
    started_at timestamptz,
    ended_at timestamptz,
    build_id int REFERENCES ${private}.build,
    release_id int REFERENCES ${private}.release,
    error text,
    note text,
    CHECK ((state = 'running') = (lease_until IS NOT NULL))
);
CREATE INDEX job_queue_open_idx ON ${private}.job_queue (due_at) WHERE state IN ('waiting', 'running');
CREATE INDEX job_queue_dataset_idx ON ${private}.job_queue (dataset_id);
COMMENT ON TABLE ${private}.job_queue IS 'Releases that were asked for through request_release. Read it through the view job.';
COMMENT ON COLUMN ${private}.job_queue.request IS 'What is asked for, as request_document gives it.';
COMMENT ON COLUMN ${private}.job_queue.due_at IS 'Not to be started before: a failed attempt puts it off.';
COMMENT ON COLUMN ${private}.job_queue.lease_until IS 'The worker renews it while it lives; after it any worker takes the job over.';
COMMENT ON COLUMN ${private}.job_queue.build_id IS 'The build that was made for this job.';
COMMENT ON COLUMN ${private}.job_queue.release_id IS 'Recorded in the transaction that books the spend: whoever takes the job over goes on with it.';
COMMENT ON COLUMN ${private}.job_queue.note IS 'What somebody should know although the job is done.';

CREATE TABLE ${private}.job_progress (
    job_id bigint PRIMARY KEY REFERENCES ${private}.job_queue,
    phase text NOT NULL,
    done bigint NOT NULL,
    total bigint,
    unit text NOT NULL,
    phase_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);
COMMENT ON TABLE ${private}.job_progress IS 'How far running jobs are; written on a connection of its own. Read it through the view progress.';

CREATE TABLE ${private}.worker (
    worker_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    host text NOT NULL,
    pid int NOT NULL,
    software text NOT NULL,
    listening boolean NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    stopped_at timestamptz
);
COMMENT ON TABLE ${private}.worker IS 'Processes that serve jobs.';
COMMENT ON COLUMN ${private}.worker.listening IS 'False: behind a pooler, where notifications do not arrive; it looks every 5 s.';
COMMENT ON COLUMN ${private}.worker.seen_at IS 'Last sign of life.';
"""
    )


def downgrade() -> None:
    raise RuntimeError("freqdp does not downgrade: restore a backup")
