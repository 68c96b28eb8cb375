SELECT
    date_trunc('hour', at) AS hour,
    count(DISTINCT trajectory_id) AS trajectories,
    count(*) AS samples
FROM {{ source('released', 'vans_current') }}
GROUP BY 1
