SELECT name, version, kind, method, published_at, guarantee ->> 'plain' AS guarantee
FROM {{ source('released', 'catalog') }}
WHERE dataset = 'vans' AND granted
ORDER BY version DESC
LIMIT 1
