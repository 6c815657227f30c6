-- Loading recipients (`ulak users push`). What is given replaces what is known; what is not given stays.

-- name: put_recipients
-- Rows in the order of their external ids, so that two loads never wait for each other in a circle.
WITH given AS MATERIALIZED (
    SELECT *
      FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::text[], $7::text[], $8::jsonb[])
           AS g(external_id, email_key, email_sealed, phone_key, phone_sealed, locale, time_zone, attributes)
), put AS (
    INSERT INTO ulak.recipients AS r
           (external_id, email_key, email_sealed, phone_key, phone_sealed, locale, time_zone, attributes)
    SELECT external_id, email_key, email_sealed, phone_key, phone_sealed, locale, time_zone,
           coalesce(attributes, '{}'::jsonb)
      FROM given
     ORDER BY external_id
    ON CONFLICT (external_id) DO UPDATE
       SET email_key = coalesce(excluded.email_key, r.email_key),
           email_sealed = coalesce(excluded.email_sealed, r.email_sealed),
           phone_key = coalesce(excluded.phone_key, r.phone_key),
           phone_sealed = coalesce(excluded.phone_sealed, r.phone_sealed),
           locale = coalesce(excluded.locale, r.locale),
           time_zone = coalesce(excluded.time_zone, r.time_zone),
           attributes = CASE excluded.attributes WHEN '{}'::jsonb THEN r.attributes ELSE excluded.attributes END,
           updated_at = now()
    RETURNING user_id, external_id, xmax = 0 AS created
)
SELECT user_id, external_id, created FROM put

-- name: put_devices
-- A token belongs to whoever signed in with it last.
INSERT INTO ulak.devices (user_id, token_key, token_sealed, platform, app_id, environment)
SELECT user_id, token_key, token_sealed, platform, app_id, environment
  FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::text[], $5::text[], $6::text[])
       AS g(user_id, token_key, token_sealed, platform, app_id, environment)
 ORDER BY token_key
ON CONFLICT (token_key) DO UPDATE
   SET user_id = excluded.user_id, platform = excluded.platform, app_id = excluded.app_id,
       environment = excluded.environment, active = true, last_seen = now()

-- name: put_preferences
INSERT INTO ulak.user_preferences AS p (user_id, category, channel, type, enabled)
SELECT user_id, category, channel, type, enabled
  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::boolean[])
       AS g(user_id, category, channel, type, enabled)
 ORDER BY user_id, category, channel, type
ON CONFLICT (user_id, category, channel, type) DO UPDATE
   SET enabled = excluded.enabled, updated_at = now()
 WHERE p.enabled IS DISTINCT FROM excluded.enabled
