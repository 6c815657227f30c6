-- Templates and their life (shared/postgres/template.py). A published version never changes; at most one is active.

-- name: lock_catalogue
-- One writer of the catalogue at a time; the key is "ulak", 3.
SELECT pg_advisory_xact_lock(504329497347)

-- name: versions
SELECT * FROM ulak.templates WHERE type = $1 AND channel = $2 AND locale = $3 ORDER BY version DESC

-- name: version
SELECT * FROM ulak.templates WHERE type = $1 AND channel = $2 AND locale = $3 AND version = $4

-- name: active
SELECT * FROM ulak.templates WHERE type = $1 AND channel = $2 AND locale = $3 AND active

-- name: all_active
SELECT * FROM ulak.templates WHERE active ORDER BY type, channel, locale

-- name: page
SELECT *
  FROM ulak.templates
 WHERE (type, channel, locale, version) > ($1, $2, $3, $4)
   AND ($5::text IS NULL OR type = $5) AND ($6::text IS NULL OR channel = $6) AND ($7::text IS NULL OR locale = $7)
   AND ($8::text IS NULL OR state = $8) AND ($9::boolean IS NULL OR active = $9)
 ORDER BY type, channel, locale, version
 LIMIT $10

-- name: add_draft
INSERT INTO ulak.templates
       (type, channel, locale, version, parts, prepared, options, parameters, checksum, state, active, created_by)
SELECT $1::varchar, $2::varchar, $3::varchar,
       coalesce((SELECT max(version) FROM ulak.templates WHERE type = $1 AND channel = $2 AND locale = $3), 0) + 1,
       $4, $5, $6, $7, $8, 'draft', false, $9
RETURNING *

-- name: change_draft
UPDATE ulak.templates
   SET parts = $4, prepared = $5, options = $6, parameters = $7, checksum = $8, revision = revision + 1
 WHERE type = $1 AND channel = $2 AND locale = $3 AND version = $9 AND state = 'draft'
RETURNING *

-- name: discard_draft
DELETE FROM ulak.templates WHERE type = $1 AND channel = $2 AND locale = $3 AND version = $4 AND state = 'draft'

-- name: retire
UPDATE ulak.templates
   SET active = false
 WHERE type = $1 AND channel = $2 AND locale = $3 AND active AND version <> $4

-- name: activate
UPDATE ulak.templates
   SET active = true, state = 'published', published_at = coalesce(published_at, now()),
       published_by = coalesce(published_by, $5)
 WHERE type = $1 AND channel = $2 AND locale = $3 AND version = $4
RETURNING *
