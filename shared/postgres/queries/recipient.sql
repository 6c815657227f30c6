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
           revision = r.revision + 1, updated_at = now()
    RETURNING user_id, external_id, xmax = 0 AS created
)
SELECT user_id, external_id, created FROM put

-- name: put_dated
-- The same of what was so at a moment ($9): not where the row was changed later. One that first sight made and nobody has
-- changed since knows nothing that it could be later with.
INSERT INTO ulak.recipients AS r
       (external_id, email_key, email_sealed, phone_key, phone_sealed, locale, time_zone, attributes, updated_at)
SELECT external_id, email_key, email_sealed, phone_key, phone_sealed, locale, time_zone,
       coalesce(attributes, '{}'::jsonb), at
  FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::text[], $7::text[], $8::jsonb[],
              $9::timestamptz[])
       AS g(external_id, email_key, email_sealed, phone_key, phone_sealed, locale, time_zone, attributes, at)
 ORDER BY external_id
ON CONFLICT (external_id) DO UPDATE
   SET email_key = coalesce(excluded.email_key, r.email_key),
       email_sealed = coalesce(excluded.email_sealed, r.email_sealed),
       phone_key = coalesce(excluded.phone_key, r.phone_key),
       phone_sealed = coalesce(excluded.phone_sealed, r.phone_sealed),
       locale = coalesce(excluded.locale, r.locale),
       time_zone = coalesce(excluded.time_zone, r.time_zone),
       attributes = CASE excluded.attributes WHEN '{}'::jsonb THEN r.attributes ELSE excluded.attributes END,
       revision = r.revision + 1, updated_at = excluded.updated_at
 WHERE r.updated_at <= excluded.updated_at
    OR (r.revision = 1 AND r.email_key IS NULL AND r.phone_key IS NULL AND r.locale IS NULL AND r.time_zone IS NULL
        AND r.attributes = '{}'::jsonb)

-- name: put_devices
-- A token belongs to whoever signed in with it last, and nothing of the one before stays in its row. What the same user's
-- app said stays: its name, and that it may show nothing. Sealed anew, so that a key that was rotated out is needed less.
INSERT INTO ulak.devices AS d (user_id, token_key, token_sealed, platform, app_id, environment)
SELECT user_id, token_key, token_sealed, platform, app_id, environment
  FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::text[], $5::text[], $6::text[])
       AS g(user_id, token_key, token_sealed, platform, app_id, environment)
 ORDER BY token_key
ON CONFLICT (token_key) DO UPDATE
   SET user_id = excluded.user_id, token_sealed = excluded.token_sealed, platform = excluded.platform,
       app_id = excluded.app_id, environment = excluded.environment,
       device_id = CASE WHEN d.user_id = excluded.user_id AND d.app_id = excluded.app_id THEN d.device_id END,
       permission = CASE WHEN d.user_id = excluded.user_id THEN d.permission ELSE 'granted' END,
       created_at = CASE WHEN d.user_id = excluded.user_id THEN d.created_at ELSE now() END,
       active = d.user_id <> excluded.user_id OR d.permission <> 'denied', last_seen = now()

-- name: put_preferences
INSERT INTO ulak.user_preferences AS p (user_id, category, channel, type, enabled)
SELECT user_id, category, channel, type, enabled
  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::boolean[])
       AS g(user_id, category, channel, type, enabled)
 ORDER BY user_id, category, channel, type
ON CONFLICT (user_id, category, channel, type) DO UPDATE
   SET enabled = excluded.enabled, updated_at = now()
 WHERE p.enabled IS DISTINCT FROM excluded.enabled
