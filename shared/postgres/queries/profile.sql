-- What users say of themselves (shared/profile): preferences and devices. services/me runs these as a role that can do
-- this and no more, so a new privilege goes into shared/postgres/role.py. Each is about one user.

-- name: find_user
SELECT user_id FROM ulak.recipients WHERE external_id = $1

-- name: enter_user
INSERT INTO ulak.recipients (external_id) VALUES ($1) ON CONFLICT (external_id) DO NOTHING

-- name: preferences
SELECT category, channel, type, enabled FROM ulak.user_preferences WHERE user_id = $1

-- name: types
-- The categories of those that exist among the named.
SELECT type, category FROM ulak.notification_types WHERE type = ANY($1::text[])

-- name: addresses
-- Keys alone: whose consents to show.
SELECT email_key, phone_key FROM ulak.recipients WHERE user_id = $1

-- name: hold_devices
-- One registration of a user at a time, so that their number stays bounded and an installation has one row.
SELECT pg_advisory_xact_lock(hashtextextended('ulak.devices', $1::bigint))

-- name: lock_devices
-- The rows that a registration touches, another user's among them, in the order in which everybody locks them.
SELECT id
  FROM ulak.devices
 WHERE token_key = $2 OR (user_id = $1 AND app_id = $3 AND device_id = $4)
 ORDER BY token_key
   FOR UPDATE

-- name: replace_installation
-- The installation has another token now: the old one is dead.
DELETE FROM ulak.devices WHERE user_id = $1 AND token_key <> $2 AND app_id = $3 AND device_id = $4

-- name: put_device
-- A token belongs to whoever signed in with it last: the row changes hands, and nothing of the one before stays in it.
INSERT INTO ulak.devices AS d (user_id, token_key, token_sealed, platform, app_id, environment, device_id, permission, active)
VALUES ($1, $2, $5, $6, $3, $7, $4, $8, $9)
ON CONFLICT (token_key) DO UPDATE
   SET user_id = excluded.user_id, token_sealed = excluded.token_sealed, platform = excluded.platform,
       app_id = excluded.app_id, environment = excluded.environment, permission = excluded.permission,
       device_id = CASE WHEN d.user_id = excluded.user_id THEN coalesce(excluded.device_id, d.device_id)
                        ELSE excluded.device_id END,
       created_at = CASE WHEN d.user_id = excluded.user_id THEN d.created_at ELSE now() END,
       active = excluded.active, last_seen = now()
RETURNING id, user_id, device_id, platform, app_id, environment, permission, active, last_seen, created_at,
          xmax = 0 AS created, token_key, token_sealed

-- name: trim_devices
DELETE FROM ulak.devices
 WHERE id IN (SELECT id FROM ulak.devices WHERE user_id = $1 ORDER BY last_seen DESC, id DESC OFFSET $2)

-- name: devices
SELECT id, device_id, platform, app_id, environment, permission, active, last_seen, created_at, token_key, token_sealed
  FROM ulak.devices
 WHERE user_id = $1
 ORDER BY last_seen DESC, id DESC

-- name: remove_device
-- By the app's own name, or by ours.
DELETE FROM ulak.devices WHERE user_id = $1 AND (device_id = $2 OR id = $3) RETURNING id, user_id
