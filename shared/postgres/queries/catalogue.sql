-- name: types
SELECT type, category, message_class, default_channels, ttl_seconds, promises, sender_profile, quiet_hours,
       content_window_seconds, fallback_channels, max_sms_segments, sms_overflow, parameter_schema, sample
  FROM ulak.notification_types

-- name: templates
SELECT type, channel, locale, version, coalesce(prepared, parts) AS parts, parameters, options
  FROM ulak.templates
 WHERE active

-- name: caps
SELECT category, channel, per_day FROM ulak.frequency_caps

-- name: mappings
SELECT name, event_type, notification_type, role, recipient, params, business_key
  FROM ulak.event_mappings
 WHERE active
 ORDER BY name

-- name: senders
SELECT name, from_address, from_name, reply_to, return_path, dkim_domain, dkim_selector, dkim_key_sealed
  FROM ulak.sender_profiles
