-- Event mappings as they are administered (shared/postgres/event_mapping.py).

-- name: one
SELECT * FROM ulak.event_mappings WHERE name = $1

-- name: page
SELECT * FROM ulak.event_mappings WHERE name > $1 ORDER BY name LIMIT $2

-- name: put
-- No row: it was so already.
INSERT INTO ulak.event_mappings AS m
       (name, event_type, notification_type, role, recipient, params, business_key, active)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (name) DO UPDATE
   SET event_type = excluded.event_type, notification_type = excluded.notification_type, role = excluded.role,
       recipient = excluded.recipient, params = excluded.params, business_key = excluded.business_key,
       active = excluded.active, revision = m.revision + 1, updated_at = now()
 WHERE (m.event_type, m.notification_type, m.role, m.recipient, m.params, m.business_key, m.active)
       IS DISTINCT FROM (excluded.event_type, excluded.notification_type, excluded.role, excluded.recipient,
                         excluded.params, excluded.business_key, excluded.active)
RETURNING xmax = 0 AS created

-- name: remove
DELETE FROM ulak.event_mappings WHERE name = $1
