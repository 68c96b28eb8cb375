CREATE FUNCTION ${private}.request_release(
    dataset text, method text DEFAULT NULL, epsilon numeric DEFAULT NULL, options jsonb DEFAULT '{}'
) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    asked jsonb := ${private}.check_request(
        request_release.dataset, request_release.method, request_release.epsilon, request_release.options
    );
    job bigint;
BEGIN
    INSERT INTO ${private}.job_queue (dataset_id, request)
    SELECT d.dataset_id, asked FROM ${private}.dataset AS d
    WHERE d.name = request_release.dataset AND d.dropped_at IS NULL
    RETURNING job_id INTO job;
    PERFORM ${private}.wake_workers();
    RETURN job;
END;
$body$;

COMMENT ON FUNCTION ${private}.request_release(text, text, numeric, jsonb) IS
'Asks for a release by a method (required) and returns the number of its job at once; a worker does it. Options: the parameters of the method (the table `method` has them; all as in `freqdp anonymize`), as, new_draw, rebuild (make a new build first), keep (withdraw all but so many of the releases that were asked for with keep, of the same series), hold (for curators only, until it is approved), window (a day, week or month: 2024-05-06, yesterday, last-week), series (the table that the window becomes a part of; without a window, releases are called SERIES_1, SERIES_2, ..., and SERIES_current shows the newest). Bad requests are refused here (SQLSTATE class QF).';
