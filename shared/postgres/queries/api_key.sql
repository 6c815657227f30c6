-- Statements of `ulak api-keys`.

-- name: create
WITH application AS (
    INSERT INTO ulak.applications (name) VALUES ($1)
    ON CONFLICT (name) DO UPDATE SET name = excluded.name
    RETURNING id
)
INSERT INTO ulak.api_keys (id, application_id, name, secret_hash, kind, scopes, rate_per_second, allow_list, expires_at)
SELECT $2, id, $3, $4, $5, $6, $7, $8, $9 FROM application

-- name: list
SELECT k.id, a.name AS application, k.name, k.kind, k.scopes, k.rate_per_second, k.created_at, k.expires_at, k.revoked_at
  FROM ulak.api_keys k
  JOIN ulak.applications a ON a.id = k.application_id
 ORDER BY a.name, k.created_at

-- name: revoke
UPDATE ulak.api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE id = $1 RETURNING revoked_at
