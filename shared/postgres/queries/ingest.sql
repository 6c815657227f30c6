-- Statements of services/ingest. Batches travel as arrays, one element per row, all of equal length.

-- name: api_key
-- $1: SHA-256 of the presented secret.
SELECT k.id, k.application_id, a.name AS application, k.name, k.secret_hash, k.kind, k.scopes, k.rate_per_second,
       k.expires_at, k.revoked_at
  FROM ulak.api_keys k
  JOIN ulak.applications a ON a.id = k.application_id
 WHERE k.secret_hash = $1

-- name: accept_notifications
-- One group of accepted requests, durable in one statement: recipients on first sight, dedup rows, notifications, and an
-- outbox row (or a due row where sendAt lies ahead) for those that are the first of their key.
-- Answers per given row who holds its key: the row itself where it is the first. holder is NULL where another
-- transaction took key or recipient meanwhile (not visible in this snapshot): the caller asks again.
-- Keys are inserted in order, recipients before dedup rows, so that two groups never wait for each other in a circle.
WITH given AS MATERIALIZED (
    SELECT *
      FROM unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::bytea[], $6::timestamptz[], $7::text[], $8::text[],
                  $9::smallint[], $10::text[], $11::text[], $12::bytea[], $13::text[], $14::text[], $15::text[],
                  $16::text[], $17::timestamptz[], $18::timestamptz[], $19::timestamptz[], $20::uuid[], $21::text[],
                  $22::timestamptz[], $23::text[], $24::bytea[], $25::text[])
           AS g(id, application_id, key, mapping, request_hmac, until, external_id, type,
                message_class, mode, state, params_sealed, channels, locale, business_key,
                collapse_key, event_time, send_at, expires_at, api_key_id, traceparent,
                created_at, topic, payload, headers)
), profile AS MATERIALIZED (
    SELECT *
      FROM unnest($26::text[], $27::bytea[], $28::bytea[], $29::bytea[], $30::bytea[], $31::text[], $32::text[])
           AS p(external_id, email_key, email_sealed, phone_key, phone_sealed, locale, time_zone)
), known AS MATERIALIZED (
    SELECT external_id, user_id FROM ulak.recipients WHERE external_id = ANY($26::text[])
), created AS (
    INSERT INTO ulak.recipients (external_id, email_key, email_sealed, phone_key, phone_sealed, locale, time_zone)
    SELECT p.external_id, p.email_key, p.email_sealed, p.phone_key, p.phone_sealed, p.locale, p.time_zone
      FROM profile p
     WHERE p.external_id NOT IN (SELECT external_id FROM known)
     ORDER BY p.external_id
    ON CONFLICT (external_id) DO NOTHING
    RETURNING external_id, user_id
), wanted AS MATERIALIZED (
    SELECT g.*, r.user_id
      FROM given g
      JOIN (SELECT * FROM known UNION ALL SELECT * FROM created) r USING (external_id)
), claimed AS (
    INSERT INTO ulak.notification_dedup (application_id, key, mapping, notification_id, request_hmac, until)
    SELECT application_id, key, mapping, id, request_hmac, until
      FROM wanted
     ORDER BY application_id, key, mapping
    ON CONFLICT (application_id, key, mapping) DO NOTHING
    RETURNING notification_id
), won AS MATERIALIZED (
    SELECT * FROM wanted WHERE id IN (SELECT notification_id FROM claimed)
), stored AS (
    INSERT INTO ulak.notifications
           (id, application_id, event_id, user_id, type, message_class, mode, state, params_sealed, channels, locale,
            business_key, collapse_key, event_time, send_at, expires_at, api_key_id, traceparent, created_at)
    SELECT id, application_id, key, user_id, type, message_class, mode, state, params_sealed,
           string_to_array(channels, ','), locale, business_key, collapse_key, event_time, send_at, expires_at,
           api_key_id, traceparent, created_at
      FROM won
     ORDER BY id
), queued AS (
    INSERT INTO ulak.outbox (id, message_class, topic, key, payload, headers, available_at)
    SELECT id, message_class, topic, convert_to(user_id::text, 'UTF8'), payload, headers::jsonb, $33
      FROM won
     WHERE state = 'ACCEPTED'
), scheduled AS (
    INSERT INTO ulak.deferred (due_at, kind, notification_id)
    SELECT send_at, 'notification', id FROM won WHERE state = 'DEFERRED'
), locked AS MATERIALIZED (
    SELECT r.user_id, p.email_key, p.email_sealed, p.phone_key, p.phone_sealed, p.locale, p.time_zone
      FROM profile p
      JOIN ulak.recipients r USING (external_id)
     WHERE $34
       AND p.external_id IN (SELECT external_id FROM won)
       AND (coalesce(p.email_key, r.email_key), coalesce(p.phone_key, r.phone_key), coalesce(p.locale, r.locale),
            coalesce(p.time_zone, r.time_zone))
           IS DISTINCT FROM (r.email_key, r.phone_key, r.locale, r.time_zone)
     ORDER BY r.user_id
       FOR NO KEY UPDATE OF r
), updated AS (
    UPDATE ulak.recipients r
       SET email_key = coalesce(l.email_key, r.email_key), email_sealed = coalesce(l.email_sealed, r.email_sealed),
           phone_key = coalesce(l.phone_key, r.phone_key), phone_sealed = coalesce(l.phone_sealed, r.phone_sealed),
           locale = coalesce(l.locale, r.locale), time_zone = coalesce(l.time_zone, r.time_zone),
           revision = r.revision + 1, updated_at = now()
      FROM locked l
     WHERE r.user_id = l.user_id
)
SELECT g.id, w.user_id,
       CASE WHEN c.notification_id IS NOT NULL THEN g.id ELSE d.notification_id END AS holder,
       CASE WHEN c.notification_id IS NOT NULL THEN g.request_hmac ELSE d.request_hmac END AS holder_hmac
  FROM given g
  LEFT JOIN wanted w ON w.id = g.id
  LEFT JOIN claimed c ON c.notification_id = g.id
  -- LIMIT keeps this one index look-up per row that is not first; as a plain join it may become a scan of the table.
  LEFT JOIN LATERAL (
       SELECT k.notification_id, k.request_hmac
         FROM ulak.notification_dedup k
        WHERE c.notification_id IS NULL
          AND k.application_id = g.application_id AND k.key = g.key AND k.mapping = g.mapping
        LIMIT 1
  ) d ON true

-- name: remove_published
-- What the broker has acknowledged needs no relay any more.
DELETE FROM ulak.outbox WHERE id = ANY($1::uuid[])

-- name: recipient_locale
SELECT locale FROM ulak.recipients WHERE external_id = $1

-- name: notification
-- $2: the caller's application, NULL for one that may read every application's.
SELECT n.id, n.event_id, r.external_id, n.type, n.state, n.message_class, n.mode, n.created_at, n.event_time, n.send_at,
       n.expires_at, n.cancelled_at, n.business_key,
       (SELECT max(d.due_at) FROM ulak.deferred d WHERE d.notification_id = n.id AND d.kind = 'notification') AS due_at
  FROM ulak.notifications n
  LEFT JOIN ulak.recipients r ON r.user_id = n.user_id
 WHERE n.id = $1 AND ($2::int IS NULL OR n.application_id = $2)

-- name: notification_ids_of_event
SELECT mapping, notification_id
  FROM ulak.notification_dedup
 WHERE application_id = $1 AND key = $2 AND ($3::text IS NULL OR mapping = $3 OR starts_with(mapping, $3 || ':'))
   AND until > $4
 ORDER BY mapping
 LIMIT 20

-- name: deliveries
SELECT notification_id, channel, target_key, address_sealed, platform, status, reason, provider, attempt,
       next_attempt_at, cancel_requested, created_at, updated_at, last_error,
       message_class
  FROM ulak.deliveries
 WHERE notification_id = $1
 ORDER BY channel, target_key

-- name: pauses_of
-- What holds deliveries of a notification, and the pauses of lanes (channel ''), which hold all that goes through them.
SELECT d.channel, d.target_key, p.id, p.kind, p.key, p.note, p.paused_by, p.paused_at
  FROM ulak.deferred d
  JOIN ulak.pauses p ON p.id = d.pause_id AND p.resumed_at IS NULL
 WHERE d.notification_id = $1
UNION ALL
SELECT '', '', id, kind, key, note, paused_by, paused_at FROM ulak.pauses WHERE kind = 'lane' AND resumed_at IS NULL

-- name: delivery_log
SELECT id, kind, channel, target_key, attempt, result, reason, provider, detail
  FROM ulak.delivery_log
 WHERE notification_id = $1
 ORDER BY id
 LIMIT $2

-- name: lock_notifications
-- Those of $1 (ids, with their smallest $2 and largest $3) that are there and the application's ($4; NULL: anybody's).
SELECT id, state, message_class
  FROM ulak.notifications
 WHERE id = ANY ($1::uuid[]) AND id BETWEEN $2 AND $3 AND ($4::int IS NULL OR application_id = $4)
 ORDER BY id
   FOR UPDATE

-- name: lock_deliveries
-- After lock_notifications: the router, which writes deliveries, holds that lock too.
SELECT notification_id, channel, target_key, status, reason, attempt, provider
  FROM ulak.deliveries
 WHERE notification_id = ANY ($1::uuid[]) AND notification_id BETWEEN $2 AND $3
 ORDER BY notification_id, channel, target_key
   FOR UPDATE

-- name: cancel_notifications
UPDATE ulak.notifications
   SET state = 'CANCELLED', cancelled_at = $4
 WHERE id = ANY ($1::uuid[]) AND id BETWEEN $2 AND $3 AND state IN ('ACCEPTED', 'DEFERRED', 'DECIDED')

-- name: cancel_deliveries
UPDATE ulak.deliveries
   SET status = CASE status WHEN 'PENDING' THEN 'SKIPPED' ELSE status END,
       reason = CASE status WHEN 'PENDING' THEN 'cancelled' ELSE reason END,
       cancel_requested = true,
       updated_at = $4
 WHERE notification_id = ANY ($1::uuid[]) AND notification_id BETWEEN $2 AND $3 AND status IN ('PENDING', 'SENDING')

-- name: forget_due
-- A cancelled notification has nothing left to wake up for.
WITH due AS (DELETE FROM ulak.otp_due WHERE notification_id = ANY ($1::uuid[]))
DELETE FROM ulak.deferred WHERE notification_id = ANY ($1::uuid[])

-- name: cancel_page
-- The next $3 ids of a range, behind $1 and before $2: the last of them, and which of them a filter means. $4 application,
-- $5 type, $6 API key, $7 to $9 channel, locale and version of a template; NULL: any. What is rendered when it is sent has
-- no version yet.
WITH page AS (
    SELECT id, application_id, type, api_key_id, state FROM ulak.notifications
     WHERE id > $1 AND id < $2
     ORDER BY id
     LIMIT $3
)
SELECT (SELECT max(id::text)::uuid FROM page) AS last, (SELECT count(*) FROM page)::int AS seen,
       ARRAY(SELECT p.id FROM page p
              WHERE p.state <> 'CANCELLED' AND ($4::int IS NULL OR p.application_id = $4)
                AND ($5::text IS NULL OR p.type = $5) AND ($6::uuid IS NULL OR p.api_key_id = $6)
                AND ($7::text IS NULL
                     OR EXISTS (SELECT FROM ulak.contents c
                                 WHERE c.notification_id = p.id AND c.notification_id > $1 AND c.notification_id < $2
                                   AND c.channel = $7 AND c.locale = $8
                                   AND c.template_version = $9 AND c.purpose <> 'email-v1'))
              ORDER BY p.id) AS meant

-- name: standing
-- What a cancel would find: the deliveries of notifications. $1 ids, $2 smallest, $3 largest.
SELECT n.id, n.state, d.status, d.reason
  FROM ulak.notifications n
  LEFT JOIN ulak.deliveries d ON d.notification_id = n.id AND d.notification_id BETWEEN $2 AND $3
 WHERE n.id = ANY ($1::uuid[]) AND n.id BETWEEN $2 AND $3
 ORDER BY n.id

-- name: clear_codes
-- A code that may not be sent any more is not kept either.
UPDATE ulak.contents
   SET sealed = NULL
 WHERE notification_id = ANY($1::uuid[]) AND notification_id BETWEEN $2 AND $3
   AND channel = 'SMS' AND purpose = 'otp-v1' AND sealed IS NOT NULL

-- name: add_log
INSERT INTO ulak.delivery_log (notification_id, id, kind, channel, target_key, attempt, result, reason, detail)
SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bytea[], $6::int[], $7::text[], $8::text[],
                     $9::text[])

-- name: add_outbox
INSERT INTO ulak.outbox (id, message_class, topic, key, payload, headers, available_at)
SELECT o.id, o.message_class, o.topic, o.key, o.payload, o.headers::jsonb, $7
  FROM unnest($1::uuid[], $2::smallint[], $3::text[], $4::bytea[], $5::bytea[], $6::text[])
       AS o(id, message_class, topic, key, payload, headers)

-- name: claim_requests
-- One-time passwords: the dedup rows of a group; answers the ids that are first. The losers ask `request_holders`.
INSERT INTO ulak.notification_dedup (application_id, key, mapping, notification_id, request_hmac, until)
SELECT * FROM unnest($1::int[], $2::text[], $3::text[], $4::uuid[], $5::bytea[], $6::timestamptz[])
           AS g(application_id, key, mapping, id, request_hmac, until)
 ORDER BY application_id, key, mapping
ON CONFLICT (application_id, key, mapping) DO NOTHING
RETURNING notification_id

-- name: request_holders
SELECT d.application_id, d.key, d.mapping, d.notification_id, d.request_hmac
  FROM ulak.notification_dedup d
  JOIN unnest($1::int[], $2::text[], $3::text[]) AS g(application_id, key, mapping)
    ON d.application_id = g.application_id AND d.key = g.key AND d.mapping = g.mapping

-- name: create_recipients
INSERT INTO ulak.recipients (external_id)
SELECT external_id FROM unnest($1::text[]) AS g(external_id) ORDER BY external_id
ON CONFLICT (external_id) DO NOTHING

-- name: recipient_ids
SELECT external_id, user_id FROM ulak.recipients WHERE external_id = ANY($1::text[])

-- name: enter_current_codes
-- So that there is a row to lock, whoever was first.
INSERT INTO ulak.otp_current (phone_key, purpose, notification_id, expires_at)
SELECT * FROM unnest($1::bytea[], $2::text[], $3::uuid[], $4::timestamptz[]) AS g(phone_key, purpose, id, expires_at)
 ORDER BY phone_key, purpose
ON CONFLICT (phone_key, purpose) DO NOTHING

-- name: lock_current_codes
SELECT c.phone_key, c.purpose, c.notification_id
  FROM ulak.otp_current c
 WHERE (c.phone_key, c.purpose) IN (SELECT * FROM unnest($1::bytea[], $2::text[]))
 ORDER BY c.phone_key, c.purpose
   FOR UPDATE

-- name: replace_current_codes
UPDATE ulak.otp_current c
   SET notification_id = g.id, expires_at = g.expires_at
  FROM unnest($1::bytea[], $2::text[], $3::uuid[], $4::timestamptz[]) AS g(phone_key, purpose, id, expires_at)
 WHERE c.phone_key = g.phone_key AND c.purpose = g.purpose

-- name: store_codes
-- Notification, delivery, content, verdict, due row and outbox row of codes that are the first of their request.
-- A code that a newer one had overtaken before it was stored arrives with status SKIPPED and is not queued.
WITH given AS MATERIALIZED (
    SELECT *
      FROM unnest($1::uuid[], $2::int[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::timestamptz[],
                  $8::uuid[], $9::text[], $10::timestamptz[], $11::bytea[], $12::bytea[], $13::text[], $14::text[],
                  $15::bytea[], $16::int[], $17::bytea[], $18::text[], $19::uuid[], $20::timestamptz[], $21::text[])
           AS g(id, application_id, request_id, user_id, mode, locale, expires_at,
                api_key_id, traceparent, created_at, target_key, address_sealed, status, reason,
                content_sealed, template_version, payload, headers, log_id, due_at, detail)
), stored AS (
    INSERT INTO ulak.notifications
           (id, application_id, event_id, user_id, type, message_class, mode, state, locale, expires_at, api_key_id,
            traceparent, created_at)
    SELECT id, application_id, request_id, user_id, $22, $23::smallint, mode, 'DECIDED', locale, expires_at, api_key_id,
           traceparent, created_at
      FROM given ORDER BY id
), delivered AS (
    INSERT INTO ulak.deliveries
           (notification_id, channel, target_key, address_sealed, status, reason, message_class, promise, mode,
            next_attempt_at, expires_at, created_at, updated_at)
    SELECT id, 'SMS', target_key, address_sealed, status, reason, $23::smallint, 'AT_LEAST_ONCE', mode,
           created_at, expires_at, created_at, created_at
      FROM given ORDER BY id
), kept AS (
    INSERT INTO ulak.contents (notification_id, channel, sealed, purpose, locale, template_version)
    SELECT id, 'SMS', CASE status WHEN 'PENDING' THEN content_sealed END, 'otp-v1', locale, template_version
      FROM given ORDER BY id
), logged AS (
    INSERT INTO ulak.delivery_log (notification_id, id, kind, channel, target_key, result, reason, detail)
    SELECT id, log_id, 'verdict', 'SMS', target_key, CASE status WHEN 'PENDING' THEN 'go' ELSE 'skip' END, reason, detail
      FROM given ORDER BY id
), due AS (
    INSERT INTO ulak.otp_due (notification_id, due_at)
    SELECT id, due_at FROM given WHERE status = 'PENDING' ORDER BY id
)
INSERT INTO ulak.outbox (id, message_class, topic, key, payload, headers, available_at)
SELECT id, $23::smallint, $24, target_key, payload, headers::jsonb, $25
  FROM given WHERE status = 'PENDING'

-- name: supersede_codes
-- The codes that newer ones replaced: what waits is skipped, what is on its way is not tried again.
WITH locked AS MATERIALIZED (
    SELECT notification_id, channel, target_key, status AS was
      FROM ulak.deliveries
     WHERE notification_id = ANY($1::uuid[]) AND notification_id BETWEEN $2 AND $3
       AND channel = 'SMS' AND status IN ('PENDING', 'SENDING')
     ORDER BY notification_id, channel, target_key
       FOR UPDATE
)
UPDATE ulak.deliveries d
   SET status = CASE l.was WHEN 'PENDING' THEN 'SKIPPED' ELSE d.status END,
       reason = CASE l.was WHEN 'PENDING' THEN 'superseded' ELSE d.reason END,
       cancel_requested = true,
       updated_at = $4
  FROM locked l
 WHERE d.notification_id = l.notification_id AND d.channel = l.channel AND d.target_key = l.target_key
   AND d.notification_id BETWEEN $2 AND $3
RETURNING d.notification_id, d.target_key, d.status, d.attempt, d.provider

-- name: forget_otp_due
DELETE FROM ulak.otp_due WHERE notification_id = ANY($1::uuid[])

-- name: otp_request
SELECT n.id, n.event_id, n.created_at, n.expires_at, d.status, d.reason, d.attempt
  FROM ulak.notification_dedup k
  JOIN ulak.notifications n ON n.id = k.notification_id
  JOIN ulak.deliveries d ON d.notification_id = k.notification_id AND d.channel = 'SMS'
 WHERE k.application_id = $1 AND k.key = $2 AND k.mapping = $3
