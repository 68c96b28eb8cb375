"""One contract for methods: parameters as one document, kinds, units, draws of any method."""

from __future__ import annotations

from freqdp_db.storage.schema.revisions import run_revision

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_revision(
        """
CREATE TABLE ${private}.method (
    name text PRIMARY KEY,
    position int NOT NULL,
    declaration jsonb NOT NULL
);
COMMENT ON TABLE ${private}.method IS 'The methods of the installed software, with their parameters: what requests in SQL are checked by. Written by freqdp init.';
COMMENT ON COLUMN ${private}.method.declaration IS 'Kind, unit, what is spent, which kinds it may follow, and each parameter with its kind, range, default and help.';

CREATE TABLE ${private}.step_column (
    release_id int NOT NULL,
    step smallint NOT NULL,
    part text NOT NULL CHECK (part IN ('draw', 'log')),
    name text NOT NULL,
    chunk int NOT NULL,
    dtype text NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (release_id, step, part, name, chunk)
);
ALTER TABLE ${private}.step_column ALTER COLUMN data SET STORAGE EXTERNAL;
COMMENT ON TABLE ${private}.step_column IS 'Draws and logs of steps, column by column, but for those of frequencies, which have tables of their own (tf_target, pf_target, edit_run).';
COMMENT ON COLUMN ${private}.step_column.dtype IS 'Type of the elements, as NumPy writes it.';

ALTER TABLE ${private}.account
    ADD COLUMN unit text NOT NULL DEFAULT 'occurrence' CHECK (unit IN ('occurrence', 'person')),
    DROP CONSTRAINT account_source_schema_source_relation_object_column_key,
    ADD CONSTRAINT account_source_unit_key UNIQUE (source_schema, source_relation, object_column, unit);
ALTER TABLE ${private}.account ALTER COLUMN unit DROP DEFAULT;
COMMENT ON COLUMN ${private}.account.unit IS 'What its ledger counts for: epsilon for one occurrence (or incidence), or rho (zero-concentrated differential privacy) for a person with all data. These never add up.';
ALTER TABLE ${private}.spend RENAME COLUMN epsilon TO amount;
COMMENT ON COLUMN ${private}.spend.amount IS 'In the currency of the account: epsilon for occurrences, rho for persons.';

ALTER TABLE ${private}.dataset ADD COLUMN region text, ADD COLUMN period text;
COMMENT ON COLUMN ${private}.dataset.region IS 'Public: where the data may lie, as west,south,east,north in degrees, or as WKT of a polygon. Not read from the data.';
COMMENT ON COLUMN ${private}.dataset.period IS 'Public: when the data may lie, as two moments with a slash between them. Not read from the data.';

ALTER TABLE ${private}.release
    ADD COLUMN kind text NOT NULL DEFAULT 'edited' CHECK (kind IN ('edited', 'unlinked', 'generalised', 'synthetic')),
    ADD COLUMN parameters jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN grantable boolean NOT NULL DEFAULT false;
UPDATE ${private}.release AS r SET
    grantable = r.private,
    parameters = jsonb_strip_nulls(jsonb_build_object(
        'epsilon_global', CASE WHEN r.method IN ('lg', 'gl', 'pure-g') THEN trim_scale(r.epsilon_global) END,
        'epsilon_local', CASE WHEN r.method IN ('lg', 'gl', 'pure-l') THEN trim_scale(r.epsilon_local) END,
        'signature', r.signature_size,
        'spread', CASE
            WHEN r.method NOT IN ('lg', 'gl', 'pure-l') THEN NULL
            WHEN r.options ->> 'spread' = 'paper' THEN r.options -> 'spread'
            ELSE to_jsonb(trim_scale((r.options ->> 'spread')::numeric))
        END,
        'radius', CASE WHEN r.method = 'rsc' THEN trim_scale((r.options ->> 'radius')::numeric) END,
        'time_step', trim_scale((r.options ->> 'time_step_us')::numeric / 1000000),
        'seed', r.options -> 'seed'
    ));
UPDATE ${private}.release AS r SET request_hash = encode(sha256(convert_to(
    concat_ws('|', b.dataset_id::text, b.fingerprint, r.method, r.parameters::text), 'UTF8')), 'hex')
FROM ${private}.build AS b WHERE b.build_id = r.build_id;
ALTER TABLE ${private}.release
    ALTER COLUMN kind DROP DEFAULT,
    ALTER COLUMN parameters DROP DEFAULT,
    ALTER COLUMN grantable DROP DEFAULT,
    DROP COLUMN epsilon_global,
    DROP COLUMN epsilon_local,
    DROP COLUMN signature_size,
    DROP COLUMN options,
    DROP COLUMN private;
COMMENT ON COLUMN ${private}.release.kind IS 'What a released trajectory is: edited (one object''s), unlinked (pieces of several), generalised (shared by several), synthetic (nobody''s).';
COMMENT ON COLUMN ${private}.release.parameters IS 'All parameters of the method, as request_parameters gives them.';
COMMENT ON COLUMN ${private}.release.grantable IS 'False if the noise was seeded or the method guarantees nothing: such a release is never granted to analysts.';

ALTER TABLE ${private}.release_step RENAME COLUMN targets TO drawn;
ALTER TABLE ${private}.release_step ADD COLUMN counts jsonb;
UPDATE ${private}.release_step SET counts = jsonb_build_object(
    'deletions', deletions, 'insertions', insertions,
    'deletion_loss_m', deletion_loss_m, 'insertion_loss_m', insertion_loss_m)
WHERE digest IS NOT NULL;
ALTER TABLE ${private}.release_step
    DROP COLUMN deletions,
    DROP COLUMN insertions,
    DROP COLUMN deletion_loss_m,
    DROP COLUMN insertion_loss_m;
COMMENT ON TABLE ${private}.release_step IS 'One step of a release: committed with its draw. The counts follow when it was carried out.';
COMMENT ON COLUMN ${private}.release_step.drawn IS 'How many values were drawn: targets of frequencies, for instance.';
COMMENT ON COLUMN ${private}.release_step.counts IS 'What the step did, in numbers.';
COMMENT ON COLUMN ${private}.release_step.digest IS 'Hash of the hashes of the trajectories after this step: a resumed run must arrive at the same.';

ALTER TABLE ${release}.catalog ADD COLUMN kind text NOT NULL DEFAULT 'edited';
ALTER TABLE ${release}.catalog ALTER COLUMN kind DROP DEFAULT;
ALTER TABLE ${release}.catalog RENAME COLUMN private TO granted;
COMMENT ON COLUMN ${release}.catalog.kind IS 'What a released trajectory is: edited (one object''s, samples out and others in), unlinked (pieced together from several objects, do not follow one for long), generalised (areas and intervals that the samples of several objects lie in), synthetic (made up, nobody''s).';
COMMENT ON COLUMN ${release}.catalog.granted IS 'Whether analysts may read it. False: the noise was seeded, or the method guarantees nothing. It says nothing about how much a table exposes: see guarantee.';

UPDATE ${private}.release AS t SET guarantee = (t.guarantee - 'private') || jsonb_build_object(
    'kind', 'edited',
    'unit', CASE WHEN t.guarantee ->> 'noise' = 'none' THEN NULL ELSE 'occurrence' END,
    'seeded', t.guarantee ->> 'noise' LIKE 'seeded%',
    'origin', 'Method: F. Jin, W. Hua, B. Ruan, X. Zhou, Frequency-based Randomization for Guaranteeing Differential Privacy in Spatial Trajectories, ICDE 2022. What is claimed here is narrower than that title.',
    'artefacts', (
        SELECT jsonb_object_agg(a.key, a.value || jsonb_build_object('title', CASE a.key
            WHEN 'tf_vector' THEN 'How many objects visit each signature place (TF)'
            WHEN 'pf_vectors' THEN 'How often each object visits its listed places (PF)'
            WHEN 'both_vectors' THEN 'Both of these together'
            ELSE 'The table of trajectories' END))
        FROM jsonb_each(t.guarantee -> 'artefacts') AS a
    )
);

UPDATE ${release}.catalog AS t SET guarantee = (t.guarantee - 'private') || jsonb_build_object(
    'kind', 'edited',
    'unit', CASE WHEN t.guarantee ->> 'noise' = 'none' THEN NULL ELSE 'occurrence' END,
    'seeded', t.guarantee ->> 'noise' LIKE 'seeded%',
    'origin', 'Method: F. Jin, W. Hua, B. Ruan, X. Zhou, Frequency-based Randomization for Guaranteeing Differential Privacy in Spatial Trajectories, ICDE 2022. What is claimed here is narrower than that title.',
    'artefacts', (
        SELECT jsonb_object_agg(a.key, a.value || jsonb_build_object('title', CASE a.key
            WHEN 'tf_vector' THEN 'How many objects visit each signature place (TF)'
            WHEN 'pf_vectors' THEN 'How often each object visits its listed places (PF)'
            WHEN 'both_vectors' THEN 'Both of these together'
            ELSE 'The table of trajectories' END))
        FROM jsonb_each(t.guarantee -> 'artefacts') AS a
    )
);

UPDATE ${private}.job_queue SET request = request - 'spread' WHERE request ->> 'method' = 'pure-g';
UPDATE ${private}.schedule SET request = request - 'spread' WHERE request ->> 'method' = 'pure-g';
"""
    )


def downgrade() -> None:
    raise RuntimeError("freqdp does not downgrade: restore a backup")
