-- Deliveries on their way: read, claim, record (semantics.md sections 2 and 3). Written by workers alone.
-- Ids come with their smallest and largest, so that partitions are pruned at run time (data.md).
-- `attempt` counts attempts made: recording an outcome adds one, or the reaper when nobody recorded one (ADR 0005).

-- name: load_deliveries
-- $1 ids, $2 smallest, $3 largest, $4 channel. All targets of the notifications; the caller picks those it has hints for.
-- An e-mail request is not read here, once for each recipient, but by load_requests.
SELECT d.notification_id, d.target_key, d.status, d.reason, d.message_class, d.promise, d.mode, d.attempt,
       d.next_attempt_at, d.lease_until, d.provider, d.send_until, d.expires_at, d.created_at, d.updated_at,
       d.cancel_requested OR n.state = 'CANCELLED' AS cancelled,
       EXISTS (SELECT FROM ulak.suppressions s
                WHERE s.channel = d.channel AND s.address_key = d.target_key AND (s.scope = 'ALL' OR d.marketing)
                  AND (s.expires_at IS NULL OR s.expires_at > now())) AS suppressed,
       d.mode <> 'team' OR coalesce(d.target_key = ANY (k.allow_list), false) AS allowed,
       d.platform, d.app_id, d.campaign_id, d.chunk, n.collapse_key, d.address_sealed,
       CASE WHEN c.purpose <> 'email-v1' THEN c.sealed END AS content_sealed, c.purpose AS content_purpose,
       CASE WHEN $4 = 'EMAIL' THEN n.type END AS type_name, d.marketing,
       CASE WHEN d.marketing THEN n.user_id END AS user_id, d.chosen_provider
  FROM ulak.deliveries d
  JOIN ulak.notifications n ON n.id = d.notification_id AND n.id BETWEEN $2 AND $3
  LEFT JOIN ulak.contents c
    ON c.notification_id = d.notification_id AND c.channel = d.channel AND c.notification_id BETWEEN $2 AND $3
  LEFT JOIN ulak.api_keys k ON d.mode = 'team' AND k.id = n.api_key_id
 WHERE d.notification_id = ANY ($1::uuid[]) AND d.notification_id BETWEEN $2 AND $3 AND d.channel = $4;

-- name: load_requests
-- E-mail requests, which are rendered when they are sent. $1 ids, $2 smallest, $3 largest.
SELECT notification_id, sealed FROM ulak.contents
 WHERE notification_id = ANY ($1::uuid[]) AND notification_id BETWEEN $2 AND $3 AND channel = 'EMAIL'
   AND purpose = 'email-v1' AND sealed IS NOT NULL;

-- name: load_withdrawn
-- Marketing notifications whose user has switched the channel off since they were decided (case C5).
-- $1 ids, $2 smallest, $3 largest, $4 channel. A type's own preference speaks before its category's.
SELECT n.id
  FROM ulak.notifications n
  JOIN ulak.notification_types t ON t.type = n.type AND t.category = 'MARKETING'
  LEFT JOIN ulak.user_preferences own
    ON own.user_id = n.user_id AND own.category = t.category AND own.channel = $4 AND own.type = n.type
  LEFT JOIN ulak.user_preferences wide
    ON wide.user_id = n.user_id AND wide.category = t.category AND wide.channel = $4 AND wide.type = ''
 WHERE n.id = ANY ($1::uuid[]) AND n.id BETWEEN $2 AND $3 AND NOT coalesce(own.enabled, wide.enabled, true);

-- name: claim_deliveries
-- PENDING -> SENDING for those that may still go out, with the batch's lease; the rest stay as they are.
-- $1 ids, $2 smallest, $3 largest, $4 target keys, $5 attempts with NULL for 0 (all in key order), $6 channel, $7 claim,
-- $8 lease until, $9 now, $10 lane, $11 provider, $12 revision of the controls it was decided by: where that is not the
-- newest any more, nothing is claimed and the answer is 0, for a pause may be among what is new. Rows are locked in key order, so that two batches cannot wait for each other.
-- Answers with positions in the arrays, from 1: a number costs the worker less than a key.
WITH due AS (
    SELECT d.notification_id, d.target_key, h.position
      FROM ulak.deliveries d
      JOIN unnest($1::uuid[], $4::bytea[], $5::int[]) WITH ORDINALITY
           AS h (notification_id, target_key, attempt, position)
        ON d.notification_id = h.notification_id AND d.target_key = h.target_key
     WHERE d.notification_id = ANY ($1::uuid[]) AND d.notification_id BETWEEN $2 AND $3 AND d.channel = $6
       AND d.status = 'PENDING' AND d.attempt = coalesce(h.attempt, 0) AND d.next_attempt_at <= $9 AND d.expires_at > $9
       AND (d.send_until IS NULL OR d.send_until > $9) AND NOT d.cancel_requested
       AND (SELECT revision FROM ulak.control_revision) = $12
     ORDER BY d.notification_id, d.channel, d.target_key
       FOR NO KEY UPDATE OF d
), claimed AS (
    UPDATE ulak.deliveries d
       SET status = 'SENDING', claim_id = $7, lease_until = $8, provider = $11, updated_at = $9
      FROM due
     WHERE d.notification_id = due.notification_id AND d.notification_id BETWEEN $2 AND $3 AND d.channel = $6
       AND d.target_key = due.target_key
    RETURNING d.notification_id, due.position
), lease AS (
    INSERT INTO ulak.leases (claim_id, lane, lease_until, notification_ids)
    SELECT $7, $10, $8, array_agg(DISTINCT notification_id) FROM claimed HAVING count(*) > 0
)
SELECT position FROM claimed
UNION ALL
SELECT 0 FROM ulak.control_revision WHERE revision <> $12;

-- name: record_outcomes
-- What became of a claim's rows; only rows that are still this claim's. A cancel or an expiry meanwhile turns a retry
-- into SKIPPED. $1 ids, $2 smallest, $3 largest, $4 channel, $5 claim, $6 now, then one array per column in key order:
-- status and attempt NULL are SENT by one attempt more, which nearly all are.
-- Answers with positions in the arrays, from 1. $14: these are the claim's last ones, its lease ends. $15 segments,
-- $16 prices in millionths, $17 their currencies: nothing at all but for SMS.
WITH ended AS (
    DELETE FROM ulak.leases WHERE claim_id = $5 AND $14
)
UPDATE ulak.deliveries d
   SET status = CASE WHEN r.status = 'PENDING' AND d.cancel_requested THEN 'SKIPPED' ELSE coalesce(r.status, 'SENT') END,
       reason = CASE WHEN r.status = 'PENDING' AND d.cancel_requested THEN 'cancelled' ELSE r.reason END,
       attempt = coalesce(r.attempt, d.attempt + 1), next_attempt_at = coalesce(r.next_attempt_at, d.next_attempt_at),
       claim_id = NULL, lease_until = NULL,
       provider_message_id = coalesce(r.provider_message_id, d.provider_message_id),
       last_error = r.last_error, updated_at = $6, segments = coalesce(r.segments, d.segments),
       price_micros = coalesce(r.price_micros, d.price_micros),
       price_currency = coalesce(r.price_currency, d.price_currency)
  FROM unnest($1::uuid[], $7::bytea[], $8::text[], $9::text[], $10::int[], $11::timestamptz[], $12::text[], $13::text[],
              $15::smallint[], $16::bigint[], $17::text[])
       WITH ORDINALITY
       AS r (notification_id, target_key, status, reason, attempt, next_attempt_at, provider_message_id, last_error,
             segments, price_micros, price_currency, position)
 WHERE d.notification_id = r.notification_id AND d.target_key = r.target_key
   AND d.notification_id = ANY ($1::uuid[]) AND d.notification_id BETWEEN $2 AND $3 AND d.channel = $4
   AND d.claim_id = $5 AND d.status = 'SENDING'
RETURNING r.position, d.status, d.reason;

-- name: settle_pending
-- PENDING -> SKIPPED or FAILED without a claim. $1 ids, $2 smallest, $3 largest, $4 channel, $5 now, $6 target keys,
-- $7 statuses, $8 reasons, $9 errors.
UPDATE ulak.deliveries d
   SET status = r.status, reason = r.reason, last_error = r.last_error, updated_at = $5
  FROM unnest($1::uuid[], $6::bytea[], $7::text[], $8::text[], $9::text[])
       AS r (notification_id, target_key, status, reason, last_error)
 WHERE d.notification_id = r.notification_id AND d.target_key = r.target_key
   AND d.notification_id = ANY ($1::uuid[]) AND d.notification_id BETWEEN $2 AND $3 AND d.channel = $4
   AND d.status = 'PENDING'
RETURNING d.notification_id, d.target_key;

-- name: load_hours
-- When something of these notifications may be sent. $1 ids, $2 smallest, $3 largest.
SELECT n.id, t.quiet_hours, t.category, r.time_zone
  FROM ulak.notifications n
  JOIN ulak.notification_types t ON t.type = n.type
  LEFT JOIN ulak.recipients r ON r.user_id = n.user_id
 WHERE n.id = ANY ($1::uuid[]) AND n.id BETWEEN $2 AND $3;

-- name: put_off
-- PENDING rows whose hours are over get the next ones, and a due row that wakes them. $1 ids, $2 smallest, $3 largest,
-- $4 channel, $5 now, then one array per column in key order: target keys, the send_until that was seen, due, send_until.
-- Answers with positions in the arrays, from 1: those that nobody else has put off.
WITH later AS (
    UPDATE ulak.deliveries d
       SET next_attempt_at = r.due_at, send_until = r.send_until, updated_at = $5
      FROM unnest($1::uuid[], $6::bytea[], $7::timestamptz[], $8::timestamptz[], $9::timestamptz[]) WITH ORDINALITY
           AS r (notification_id, target_key, seen, due_at, send_until, position)
     WHERE d.notification_id = r.notification_id AND d.target_key = r.target_key
       AND d.notification_id = ANY ($1::uuid[]) AND d.notification_id BETWEEN $2 AND $3 AND d.channel = $4
       AND d.status = 'PENDING' AND d.send_until = r.seen
    RETURNING d.notification_id, d.target_key, r.due_at, r.position
), waiting AS (
    INSERT INTO ulak.deferred (due_at, kind, notification_id, channel, target_key)
    SELECT due_at, 'delivery', notification_id, $4, target_key FROM later
)
SELECT position FROM later;

-- name: log_attempts
-- $1 ids, $2 log ids, $3 channel, $4 target keys, $5 attempts, $6 results, $7 reasons, $8 providers, $9 details, $10 kinds.
INSERT INTO ulak.delivery_log
       (notification_id, id, kind, channel, target_key, attempt, result, reason, provider, detail)
SELECT l.notification_id, l.id, l.kind, $3, l.target_key, l.attempt, l.result, l.reason, l.provider, l.detail
  FROM unnest($1::uuid[], $2::uuid[], $4::bytea[], $5::int[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[])
       AS l (notification_id, id, target_key, attempt, result, reason, provider, detail, kind);

-- name: has_parked_receipts
-- $1 smallest id, $2 largest, $3 channel. A statement of its own after the outcomes: it sees what was parked meanwhile.
SELECT EXISTS (SELECT FROM ulak.parked_receipts WHERE notification_id BETWEEN $1 AND $2 AND channel = $3);

-- name: take_parked_receipts
-- Receipts that came before their send was recorded, in the order they came; they are applied in this transaction.
-- $1 ids, $2 target keys, $3 channel.
DELETE FROM ulak.parked_receipts p
 USING unnest($1::uuid[], $2::bytea[]) AS k (notification_id, target_key)
 WHERE p.notification_id = k.notification_id AND p.target_key = k.target_key AND p.channel = $3
RETURNING p.notification_id, p.target_key, p.attempt, p.kind, p.provider, p.detail, p.received_at;

-- name: apply_receipts
-- Statuses that parked receipts lead to, on rows this transaction has just written.
UPDATE ulak.deliveries d
   SET status = r.status, reason = r.reason, updated_at = $5
  FROM unnest($1::uuid[], $6::bytea[], $7::text[], $8::text[]) AS r (notification_id, target_key, status, reason)
 WHERE d.notification_id = r.notification_id AND d.target_key = r.target_key
   AND d.notification_id = ANY ($1::uuid[]) AND d.notification_id BETWEEN $2 AND $3 AND d.channel = $4
   AND d.status IN ('SENT', 'UNKNOWN', 'DELIVERED');

-- name: open_unknown
INSERT INTO ulak.unknown_open (notification_id, channel, target_key, since)
SELECT u.notification_id, $3, u.target_key, $4 FROM unnest($1::uuid[], $2::bytea[]) AS u (notification_id, target_key)
    ON CONFLICT DO NOTHING;

-- name: switch_devices_off
UPDATE ulak.devices SET active = false WHERE token_key = ANY ($1::bytea[]) AND active;

-- name: suppress_targets
-- Until somebody removes it, even where a pause with an end was there before.
INSERT INTO ulak.suppressions AS s (channel, address_key, reason, source)
SELECT $1, key, 'target_gone', 'bounce' FROM unnest($2::bytea[]) AS key ORDER BY key
ON CONFLICT (channel, address_key, scope) DO UPDATE
   SET reason = excluded.reason, source = excluded.source, expires_at = NULL
 WHERE s.expires_at IS NOT NULL;

-- name: clear_codes
-- Login codes of which nothing more can be sent.
UPDATE ulak.contents SET sealed = NULL
 WHERE notification_id = ANY ($1::uuid[]) AND notification_id BETWEEN $2 AND $3 AND purpose = 'otp-v1' AND sealed IS NOT NULL;

-- name: index_dead_letters
INSERT INTO ulak.dead_letters
       (topic, fingerprint, notification_id, channel, target_key, error_class, detail, first_seen, last_seen)
SELECT $1, l.fingerprint, l.notification_id, $2, l.target_key, l.error_class, l.detail, $3, $3
  FROM unnest($4::bytea[], $5::uuid[], $6::bytea[], $7::text[], $8::text[])
       AS l (fingerprint, notification_id, target_key, error_class, detail)
    ON CONFLICT (topic, fingerprint) DO UPDATE SET last_seen = EXCLUDED.last_seen, state = 'open';

-- name: open_dead_letters
SELECT fingerprint, error_class, detail FROM ulak.dead_letters
 WHERE topic = $1 AND fingerprint = ANY ($2::bytea[]) AND state = 'open';
