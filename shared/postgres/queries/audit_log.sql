-- The audit log (shared/postgres/audit_log.py). Append-only.

-- name: record
INSERT INTO ulak.audit_log (actor, action, kind, key, detail) VALUES ($1, $2, $3, $4, $5)

-- name: page
-- The newest first, behind $1; what is given must hold: kind, key, actor, and ids from $5 to below $6.
SELECT id, at, actor, action, kind, key, detail
  FROM ulak.audit_log
 WHERE ($1::uuid IS NULL OR id < $1)
   AND ($2::text IS NULL OR kind = $2) AND ($3::text IS NULL OR key = $3) AND ($4::text IS NULL OR actor = $4)
   AND ($5::uuid IS NULL OR id >= $5) AND ($6::uuid IS NULL OR id < $6)
 ORDER BY id DESC
 LIMIT $7
