-- API keys (shared/postgres/api_key.py). Their secrets are known by their hashes alone.

-- name: create
WITH application AS (
    INSERT INTO ulak.applications (name) VALUES ($1)
    ON CONFLICT (name) DO UPDATE SET name = excluded.name
    RETURNING id, name
), key AS (
    INSERT INTO ulak.api_keys
           (id, application_id, name, secret_hash, kind, scopes, rate_per_second, allow_list, expires_at)
    SELECT $2, id, $3, $4, $5, $6, $7, $8, $9 FROM application
    RETURNING *
)
SELECT k.*, a.name AS application FROM key k JOIN application a ON a.id = k.application_id

-- name: page
-- The oldest first: ids are in the order in which keys were made. $1 application (NULL: any), behind $2.
SELECT k.*, a.name AS application
  FROM ulak.api_keys k
  JOIN ulak.applications a ON a.id = k.application_id
 WHERE ($1::text IS NULL OR a.name = $1) AND k.id > $2
 ORDER BY k.id
 LIMIT $3

-- name: one
SELECT k.*, a.name AS application
  FROM ulak.api_keys k
  JOIN ulak.applications a ON a.id = k.application_id
 WHERE k.id = $1

-- name: one_locked
SELECT k.*, a.name AS application
  FROM ulak.api_keys k
  JOIN ulak.applications a ON a.id = k.application_id
 WHERE k.id = $1
   FOR UPDATE OF k

-- name: change
UPDATE ulak.api_keys
   SET name = $2, scopes = $3, rate_per_second = $4, allow_list = $5, expires_at = $6, revision = revision + 1
 WHERE id = $1

-- name: revoke
-- Once is enough: the moment of the first time stands.
UPDATE ulak.api_keys SET revoked_at = now(), revision = revision + 1 WHERE id = $1 AND revoked_at IS NULL
