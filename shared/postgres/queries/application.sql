-- Applications, and which CloudEvents sources are whose (shared/postgres/application.py).

-- name: one
SELECT name, sources, revision, created_at FROM ulak.applications WHERE name = $1

-- name: page
SELECT name, sources, revision, created_at FROM ulak.applications WHERE name > $1 ORDER BY name LIMIT $2

-- name: source_owners
SELECT name, sources FROM ulak.applications WHERE sources && $1::text[]

-- name: put
-- No row: it was so already.
INSERT INTO ulak.applications AS a (name, sources) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET sources = excluded.sources, revision = a.revision + 1
 WHERE a.sources IS DISTINCT FROM excluded.sources
RETURNING xmax = 0 AS created
