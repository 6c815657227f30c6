-- name: types
SELECT type, category, message_class, default_channels, ttl_seconds, promises FROM ulak.notification_types

-- name: templates
SELECT type, channel, locale, version, parts, parameters FROM ulak.templates WHERE active

-- name: mappings
SELECT name, event_type, notification_type, role, recipient, params, business_key
  FROM ulak.event_mappings
 WHERE active
 ORDER BY name
