-- Suppressions as they are administered (shared/postgres/suppression.py). Others make them too: workers (delivery.sql),
-- callbacks (receipts.sql), model A's e-mail (email_messages.sql).

-- name: put
-- What is there is prolonged, never shortened. Rows in the order of their keys, so that two batches cannot wait for each
-- other in a circle.
INSERT INTO ulak.suppressions AS s
       (channel, address_key, scope, address_sealed, reason, source, note, expires_at, created_by)
SELECT channel, address_key, scope, address_sealed, reason, source, note, expires_at, $9
  FROM unnest($1::text[], $2::bytea[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::timestamptz[])
       AS g(channel, address_key, scope, address_sealed, reason, source, note, expires_at)
 ORDER BY channel, address_key, scope
ON CONFLICT (channel, address_key, scope) DO UPDATE
   SET address_sealed = excluded.address_sealed, reason = excluded.reason, source = excluded.source,
       note = excluded.note, expires_at = excluded.expires_at, created_by = excluded.created_by
 WHERE s.expires_at IS NOT NULL AND (excluded.expires_at IS NULL OR excluded.expires_at > s.expires_at)

-- name: page
-- The newest first; $1 channel (NULL: any), behind $2.
SELECT * FROM ulak.suppressions
 WHERE ($1::text IS NULL OR channel = $1) AND ($2::uuid IS NULL OR id < $2)
 ORDER BY id DESC
 LIMIT $3

-- name: add
-- No row: there is one of this scope.
INSERT INTO ulak.suppressions
       (id, channel, address_key, scope, address_sealed, reason, source, note, created_by, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (channel, address_key, scope) DO NOTHING
RETURNING *

-- name: locked
SELECT * FROM ulak.suppressions WHERE channel = $1 AND address_key = $2 AND scope = $3 FOR UPDATE

-- name: prolong
UPDATE ulak.suppressions
   SET address_sealed = $2, reason = $3, source = $4, note = $5, created_by = $6, expires_at = $7
 WHERE id = $1
RETURNING *

-- name: remove
DELETE FROM ulak.suppressions WHERE channel = $1 AND address_key = $2 AND scope = $3 RETURNING id
