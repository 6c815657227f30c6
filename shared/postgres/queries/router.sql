-- Statements of services/router. Batches travel as arrays; rows are locked and inserted in key order; `BETWEEN $2 AND $3`
-- beside `= ANY($1)` bounds the ids so that partitions are pruned at run time (docs/data.md).

-- name: load_notifications
SELECT n.id, n.application_id, n.event_id, n.user_id, n.type, n.message_class, n.mode, n.state, n.params_sealed,
       n.channels, coalesce(n.locale, r.locale) AS locale, n.business_key, n.event_time, n.send_at, n.expires_at,
       n.api_key_id, n.traceparent, n.created_at, r.email_key, r.email_sealed, r.phone_key, r.phone_sealed, r.time_zone
  FROM ulak.notifications n
  LEFT JOIN ulak.recipients r ON r.user_id = n.user_id
 WHERE n.id = ANY($1::uuid[]) AND n.id BETWEEN $2 AND $3
 ORDER BY n.id

-- name: lock_notifications
-- Whoever changes a notification or writes its deliveries holds this lock; taken in key order.
SELECT id, state
  FROM ulak.notifications
 WHERE id = ANY($1::uuid[]) AND id BETWEEN $2 AND $3
 ORDER BY id
   FOR UPDATE

-- name: settle_notifications
-- From the state that was seen ($4) to the one decided ($5); the rows are locked and were still in it.
UPDATE ulak.notifications
   SET state = $5
 WHERE id = ANY($1::uuid[]) AND id BETWEEN $2 AND $3 AND state = $4

-- name: forget_deferred
-- What waited has been decided: nothing is left to wake up for.
DELETE FROM ulak.deferred WHERE kind = 'notification' AND pause_id IS NULL AND notification_id = ANY($1::uuid[])

-- name: defer_notifications
-- One due row per deferred notification; one that waits that long already stays.
INSERT INTO ulak.deferred (due_at, kind, notification_id)
SELECT g.due_at, 'notification', g.notification_id
  FROM unnest($1::timestamptz[], $2::uuid[]) AS g(due_at, notification_id)
 WHERE NOT EXISTS (SELECT FROM ulak.deferred d
                    WHERE d.notification_id = g.notification_id AND d.kind = 'notification'
                      AND (d.due_at >= g.due_at OR d.pause_id IS NOT NULL))
 ORDER BY g.notification_id

-- name: claim_windows
-- The first content of its type, user and business key until `until`; one notification may claim again what it has.
-- Answers the claims that stand. Another transaction's claim is waited for, in key order. $6: now.
INSERT INTO ulak.content_window AS w (type, user_id, business_key, notification_id, until)
SELECT type, user_id, business_key, notification_id, until
  FROM unnest($1::text[], $2::bigint[], $3::text[], $4::uuid[], $5::timestamptz[])
       AS g(type, user_id, business_key, notification_id, until)
 ORDER BY type, user_id, business_key
ON CONFLICT (type, user_id, business_key) DO UPDATE
   SET notification_id = excluded.notification_id,
       until = CASE WHEN w.notification_id = excluded.notification_id THEN w.until ELSE excluded.until END
 WHERE w.until <= $6 OR w.notification_id = excluded.notification_id
RETURNING notification_id

-- name: enter_dead_letters
INSERT INTO ulak.dead_letters
       (topic, fingerprint, notification_id, channel, error_class, detail, first_seen, last_seen)
SELECT $1, g.fingerprint, g.notification_id, g.channel, g.error_class, g.detail, $7, $7
  FROM unnest($2::bytea[], $3::uuid[], $4::text[], $5::text[], $6::text[])
       AS g(fingerprint, notification_id, channel, error_class, detail)
 ORDER BY g.fingerprint
ON CONFLICT (topic, fingerprint) DO UPDATE SET last_seen = excluded.last_seen

-- name: owed_deliveries
-- What a decided notification may still owe: hints of what is PENDING, and the events of what the router itself settled.
SELECT d.notification_id, d.channel, d.target_key, d.status, d.reason, d.attempt, d.message_class, d.next_attempt_at,
       d.updated_at, n.user_id, n.traceparent
  FROM ulak.deliveries d
  JOIN ulak.notifications n ON n.id = d.notification_id AND n.id BETWEEN $2 AND $3
 WHERE d.notification_id = ANY($1::uuid[]) AND d.notification_id BETWEEN $2 AND $3
   AND n.state = 'DECIDED'
   AND (d.status = 'PENDING' OR d.status IN ('SKIPPED', 'FAILED', 'DELIVERED') AND d.attempt = 0)
 ORDER BY d.notification_id, d.channel, d.target_key

-- name: applications
SELECT id, sources FROM ulak.applications

-- name: event_holders
-- Which notification already stands for an event and mapping.
SELECT d.application_id, d.key, d.mapping, d.notification_id, d.request_hmac
  FROM unnest($1::int[], $2::text[], $3::text[]) AS g(application_id, key, mapping)
  JOIN ulak.notification_dedup d
    ON d.application_id = g.application_id AND d.key = g.key AND d.mapping = g.mapping

-- name: claim_events
-- Answers the ids that are the first of their event and mapping; another transaction's claim is waited for.
INSERT INTO ulak.notification_dedup (application_id, key, mapping, notification_id, request_hmac, until)
SELECT *
  FROM unnest($1::int[], $2::text[], $3::text[], $4::uuid[], $5::bytea[], $6::timestamptz[])
       AS g(application_id, key, mapping, id, request_hmac, until)
 ORDER BY application_id, key, mapping
ON CONFLICT (application_id, key, mapping) DO NOTHING
RETURNING notification_id

-- name: recipients
SELECT user_id, external_id, email_key, email_sealed, phone_key, phone_sealed, locale, time_zone
  FROM ulak.recipients
 WHERE external_id = ANY($1::text[])

-- name: enter_recipients
-- First sight creates a user.
INSERT INTO ulak.recipients (external_id)
SELECT external_id FROM unnest($1::text[]) AS g(external_id) ORDER BY external_id
ON CONFLICT (external_id) DO NOTHING

-- name: log_duplicates
-- An event whose key is taken by another body. The ids are made from the message, so a redelivery adds nothing.
INSERT INTO ulak.delivery_log (notification_id, id, kind, result, detail)
SELECT notification_id, id, 'duplicate', 'other_body', detail
  FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS g(notification_id, id, detail)
 ORDER BY notification_id, id
ON CONFLICT DO NOTHING
