-- Writing the catalogue (`ulak templates push`). Each answers whether the row was created or updated; no row: unchanged.

-- name: lock_catalogue
-- One push at a time; the key is "ulak", 3.
SELECT pg_advisory_xact_lock(504329497347)

-- name: source_owners
SELECT name, sources FROM ulak.applications WHERE sources && $1::text[]

-- name: put_application
INSERT INTO ulak.applications (name, sources) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET sources = excluded.sources
 WHERE applications.sources IS DISTINCT FROM excluded.sources
RETURNING xmax = 0 AS created

-- name: put_type
INSERT INTO ulak.notification_types AS t
       (type, category, message_class, default_channels, ttl_seconds, promises, retention_days)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (type) DO UPDATE
   SET category = excluded.category, message_class = excluded.message_class,
       default_channels = excluded.default_channels, ttl_seconds = excluded.ttl_seconds,
       promises = excluded.promises, retention_days = excluded.retention_days, updated_at = now()
 WHERE (t.category, t.message_class, t.default_channels, t.ttl_seconds, t.promises, t.retention_days)
       IS DISTINCT FROM (excluded.category, excluded.message_class, excluded.default_channels, excluded.ttl_seconds,
                         excluded.promises, excluded.retention_days)
RETURNING xmax = 0 AS created

-- name: template_versions
SELECT max(version) AS latest, (array_agg(checksum) FILTER (WHERE active))[1] AS active_checksum
  FROM ulak.templates
 WHERE type = $1 AND channel = $2 AND locale = $3

-- name: retire_template
UPDATE ulak.templates SET active = false WHERE type = $1 AND channel = $2 AND locale = $3 AND active

-- name: add_template
INSERT INTO ulak.templates (type, channel, locale, version, parts, parameters, checksum, active)
VALUES ($1, $2, $3, $4, $5, $6, $7, true)

-- name: put_mapping
INSERT INTO ulak.event_mappings AS m (name, event_type, notification_type, role, recipient, params, business_key)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (name) DO UPDATE
   SET event_type = excluded.event_type, notification_type = excluded.notification_type, role = excluded.role,
       recipient = excluded.recipient, params = excluded.params, business_key = excluded.business_key,
       active = true, updated_at = now()
 WHERE (m.event_type, m.notification_type, m.role, m.recipient, m.params, m.business_key, m.active)
       IS DISTINCT FROM (excluded.event_type, excluded.notification_type, excluded.role, excluded.recipient,
                         excluded.params, excluded.business_key, true)
RETURNING xmax = 0 AS created
