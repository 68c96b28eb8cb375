SELECT
    date_trunc('hour', sampled_at) AS hour,
    count(DISTINCT trajectory_id) AS trajectories,
    count(*) AS samples
FROM {{ source('released', 'vans_current') }}
GROUP BY 1
