-- Failed deliveries that an operator sends on their way again (semantics.md section 2).
-- Keys come as $1 ids, $2 smallest, $3 largest, $4 channels, $5 target keys, so that partitions are pruned.

-- name: lock_failed_emails
-- $1 ids, $2 smallest, $3 largest.
SELECT notification_id, channel, target_key
  FROM ulak.deliveries
 WHERE notification_id = ANY($1::uuid[]) AND notification_id BETWEEN $2 AND $3 AND channel = 'EMAIL' AND status = 'FAILED'
 ORDER BY notification_id, channel, target_key
   FOR UPDATE

-- name: lock_deliveries
-- Those that nobody else is at.
SELECT d.notification_id, d.channel, d.target_key
  FROM ulak.deliveries d
  JOIN unnest($1::uuid[], $4::text[], $5::bytea[]) AS k(notification_id, channel, target_key)
    ON d.notification_id = k.notification_id AND d.channel = k.channel AND d.target_key = k.target_key
 WHERE d.notification_id = ANY($1::uuid[]) AND d.notification_id BETWEEN $2 AND $3
   FOR UPDATE OF d SKIP LOCKED

-- name: load_standing
SELECT d.notification_id, d.channel, d.target_key, d.status, d.reason, d.attempt, d.expires_at, d.provider,
       d.message_class, d.campaign_id, d.chunk, n.user_id, n.traceparent,
       d.cancel_requested OR n.state = 'CANCELLED' AS cancelled,
       d.mode <> 'test' AND EXISTS (
           SELECT FROM ulak.suppressions s
            WHERE s.channel = d.channel AND s.address_key = d.target_key AND (s.scope = 'ALL' OR d.marketing)
              AND (s.expires_at IS NULL OR s.expires_at > now())) AS suppressed,
       c.sealed IS NOT NULL AS has_content, coalesce(c.purpose = 'email-v1', false) AS shared_content,
       coalesce(c.purpose = 'otp-v1', false) AND NOT EXISTS (
           SELECT FROM ulak.otp_current o WHERE o.notification_id = d.notification_id) AS superseded
  FROM ulak.deliveries d
  JOIN unnest($1::uuid[], $4::text[], $5::bytea[]) AS k(notification_id, channel, target_key)
    ON d.notification_id = k.notification_id AND d.channel = k.channel AND d.target_key = k.target_key
  JOIN ulak.notifications n ON n.id = d.notification_id AND n.id BETWEEN $2 AND $3
  LEFT JOIN ulak.contents c
    ON c.notification_id = d.notification_id AND c.channel = d.channel AND c.notification_id BETWEEN $2 AND $3
 WHERE d.notification_id = ANY($1::uuid[]) AND d.notification_id BETWEEN $2 AND $3
 ORDER BY d.notification_id, d.channel, d.target_key

-- name: requeue_deliveries
-- Attempts are counted anew: the retry tiers begin again, and hints of before are stale. $6 statuses, $7 now,
-- $8 reasons, $9 the provider that is chosen, or NULL.
UPDATE ulak.deliveries d
   SET status = r.status, reason = r.reason, attempt = CASE r.status WHEN 'PENDING' THEN 0 ELSE d.attempt END,
       next_attempt_at = $7, last_error = NULL, chosen_provider = $9, updated_at = $7
  FROM unnest($1::uuid[], $4::text[], $5::bytea[], $6::text[], $8::text[])
       AS r(notification_id, channel, target_key, status, reason)
 WHERE d.notification_id = r.notification_id AND d.channel = r.channel AND d.target_key = r.target_key
   AND d.notification_id = ANY($1::uuid[]) AND d.notification_id BETWEEN $2 AND $3 AND d.status = 'FAILED'

-- name: log_requeued
-- $1 ids, $2 log ids, $3 channels, $4 target keys, $5 attempts, $6 reasons, $7 provider, $8 detail.
INSERT INTO ulak.delivery_log
       (notification_id, id, kind, channel, target_key, attempt, result, reason, provider, detail)
SELECT l.notification_id, l.id, 'operator', l.channel, l.target_key, l.attempt, 'requeue', l.reason, $7, $8
  FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[], $5::int[], $6::text[])
       AS l(notification_id, id, channel, target_key, attempt, reason)

-- name: close_dead_letters
UPDATE ulak.dead_letters
   SET state = 'replayed', last_seen = $4
 WHERE topic = ANY($1::text[]) AND fingerprint = ANY($2::bytea[]) AND notification_id = ANY($3::uuid[]) AND state = 'open'

-- name: reopen_intakes
UPDATE ulak.email_intakes SET settled_at = NULL WHERE notification_id = ANY($1::uuid[])

-- name: add_outbox
INSERT INTO ulak.outbox (message_class, topic, key, payload, headers, available_at)
SELECT o.message_class, o.topic, o.key, o.payload, o.headers, $6
  FROM unnest($1::smallint[], $2::text[], $3::bytea[], $4::bytea[], $5::jsonb[])
       AS o(message_class, topic, key, payload, headers)
