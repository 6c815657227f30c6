-- One version of a template sent to one known user, to be looked at (services/ingest/admin/test_send.py).

-- name: recipient
SELECT user_id, time_zone, email_key, email_sealed, phone_key, phone_sealed
  FROM ulak.recipients
 WHERE external_id = $1

-- name: devices
SELECT token_key, token_sealed, platform, app_id
  FROM ulak.devices
 WHERE user_id = $1 AND active AND permission <> 'denied'
 ORDER BY id

-- name: add_notification
INSERT INTO ulak.notifications
       (id, application_id, event_id, user_id, type, message_class, mode, state, locale, expires_at, api_key_id,
        created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, 'DECIDED', $8, $9, $10, $11)

-- name: add_content
INSERT INTO ulak.contents (notification_id, channel, sealed, purpose, locale, template_version)
VALUES ($1, $2, $3, 'content-v1', $4, $5)

-- name: add_deliveries
INSERT INTO ulak.deliveries
       (notification_id, channel, target_key, address_sealed, platform, app_id, status, message_class, promise, mode,
        next_attempt_at, send_until, marketing, expires_at, created_at, updated_at)
SELECT $1, $2, g.target_key, g.address_sealed, g.platform, g.app_id, 'PENDING', $7, $8, $9, $10, $11, $12, $13, $10, $10
  FROM unnest($3::bytea[], $4::bytea[], $5::text[], $6::text[]) AS g(target_key, address_sealed, platform, app_id)
 ORDER BY g.target_key
