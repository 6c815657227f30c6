-- Notification types as they are administered (shared/postgres/notification_type.py).

-- name: one
SELECT * FROM ulak.notification_types WHERE type = $1

-- name: page
SELECT * FROM ulak.notification_types WHERE type > $1 ORDER BY type LIMIT $2

-- name: all
SELECT * FROM ulak.notification_types ORDER BY type

-- name: put
-- No row: it was so already.
INSERT INTO ulak.notification_types AS t
       (type, category, message_class, default_channels, ttl_seconds, promises, retention_days, sender_profile,
        quiet_hours, content_window_seconds, fallback_channels, max_sms_segments, sms_overflow, parameter_schema, sample)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (type) DO UPDATE
   SET category = excluded.category, message_class = excluded.message_class,
       default_channels = excluded.default_channels, ttl_seconds = excluded.ttl_seconds,
       promises = excluded.promises, retention_days = excluded.retention_days,
       sender_profile = excluded.sender_profile, quiet_hours = excluded.quiet_hours,
       content_window_seconds = excluded.content_window_seconds, fallback_channels = excluded.fallback_channels,
       max_sms_segments = excluded.max_sms_segments, sms_overflow = excluded.sms_overflow,
       parameter_schema = excluded.parameter_schema, sample = excluded.sample,
       revision = t.revision + 1, updated_at = now()
 WHERE (t.category, t.message_class, t.default_channels, t.ttl_seconds, t.promises, t.retention_days, t.sender_profile,
        t.quiet_hours, t.content_window_seconds, t.fallback_channels, t.max_sms_segments, t.sms_overflow,
        t.parameter_schema, t.sample)
       IS DISTINCT FROM (excluded.category, excluded.message_class, excluded.default_channels, excluded.ttl_seconds,
                         excluded.promises, excluded.retention_days, excluded.sender_profile, excluded.quiet_hours,
                         excluded.content_window_seconds, excluded.fallback_channels, excluded.max_sms_segments,
                         excluded.sms_overflow, excluded.parameter_schema, excluded.sample)
RETURNING xmax = 0 AS created, revision

-- name: remove
-- Its templates go with it. Whatever else names it (mappings) keeps it: asyncpg's ForeignKeyViolationError.
WITH templates AS (DELETE FROM ulak.templates WHERE type = $1)
DELETE FROM ulak.notification_types WHERE type = $1
