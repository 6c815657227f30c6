-- Leases that ran out, and the retention of the small tables that drive work.

-- name: due_leases
SELECT claim_id, lane, notification_ids
  FROM ulak.leases
 WHERE lease_until < now() - $2::float8 * interval '1 second'
 ORDER BY lease_until
 LIMIT $1
   FOR UPDATE SKIP LOCKED;

-- name: stuck_deliveries
-- Rows still SENDING under those claims. A row that is locked is being recorded by its worker this very moment: it is
-- left alone, and so is its lease. Waiting for it while holding the lease would be a deadlock with that worker.
SELECT d.notification_id, d.channel, d.target_key, d.claim_id, d.attempt, d.message_class, d.promise, d.provider,
       d.cancel_requested, d.expires_at, d.campaign_id, d.chunk, n.state AS notification_state, n.user_id, n.traceparent,
       c.purpose IS NOT NULL AS is_request
  FROM ulak.deliveries d
  JOIN ulak.notifications n
    ON n.id = d.notification_id AND n.id = ANY ($1::uuid[]) AND n.id BETWEEN $2 AND $3
  LEFT JOIN ulak.contents c
    ON c.notification_id = d.notification_id AND c.channel = d.channel AND c.notification_id BETWEEN $2 AND $3
   AND c.channel = 'EMAIL' AND c.purpose = 'email-v1'
 WHERE d.notification_id = ANY ($1::uuid[]) AND d.notification_id BETWEEN $2 AND $3
   AND d.status = 'SENDING' AND d.claim_id = ANY ($4::uuid[])
 ORDER BY d.notification_id, d.channel, d.target_key
   FOR UPDATE OF d SKIP LOCKED;

-- name: settle_stuck
-- SENDING -> PENDING, UNKNOWN, SKIPPED or FAILED, as services/relay/reaper.py decided.
UPDATE ulak.deliveries d
   SET status = s.status, reason = s.reason, attempt = s.attempt, next_attempt_at = $9, claim_id = NULL,
       lease_until = NULL, last_error = s.detail, updated_at = $9
  FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::text[], $5::text[], $6::int[], $7::text[], $8::uuid[])
       AS s (notification_id, channel, target_key, status, reason, attempt, detail, claim_id)
 WHERE d.notification_id = s.notification_id AND d.channel = s.channel AND d.target_key = s.target_key
   AND d.notification_id BETWEEN $10 AND $11
   AND d.status = 'SENDING' AND d.claim_id = s.claim_id;

-- name: remove_leases
-- Those with no SENDING row left.
DELETE FROM ulak.leases l
 WHERE l.claim_id = ANY ($1::uuid[])
   AND NOT EXISTS (SELECT FROM ulak.deliveries d
                    WHERE d.notification_id = ANY (l.notification_ids) AND d.notification_id BETWEEN $2 AND $3
                      AND d.status = 'SENDING' AND d.claim_id = l.claim_id);

-- name: take_parked
-- Receipts that came before this outcome was recorded.
DELETE FROM ulak.parked_receipts p
 USING unnest($1::uuid[], $2::text[], $3::bytea[]) AS k (notification_id, channel, target_key)
 WHERE p.notification_id = k.notification_id AND p.channel = k.channel AND p.target_key = k.target_key
RETURNING p.notification_id, p.channel, p.target_key, p.attempt, p.kind, p.detail;

-- name: open_unknown
INSERT INTO ulak.unknown_open (notification_id, channel, target_key, since)
SELECT u.notification_id, u.channel, u.target_key, $4
  FROM unnest($1::uuid[], $2::text[], $3::bytea[]) AS u (notification_id, channel, target_key)
 ORDER BY 1, 2, 3
    ON CONFLICT DO NOTHING;

-- name: log_deliveries
INSERT INTO ulak.delivery_log
       (notification_id, id, kind, channel, target_key, attempt, result, reason, provider, detail)
SELECT l.notification_id, l.id, $1, l.channel, l.target_key, l.attempt, l.result, l.reason, l.provider, l.detail
  FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::bytea[], $6::int[], $7::text[], $8::text[], $9::text[],
              $10::text[])
       AS l (notification_id, id, channel, target_key, attempt, result, reason, provider, detail)
    ON CONFLICT DO NOTHING;

-- name: index_exhausted
INSERT INTO ulak.dead_letters
       (topic, fingerprint, notification_id, channel, target_key, error_class, detail, first_seen, last_seen)
SELECT e.topic, e.fingerprint, e.notification_id, e.channel, e.target_key, e.error_class, e.detail, $8, $8
  FROM unnest($1::text[], $2::bytea[], $3::uuid[], $4::text[], $5::bytea[], $6::text[], $7::text[])
       AS e (topic, fingerprint, notification_id, channel, target_key, error_class, detail)
 ORDER BY e.topic, e.fingerprint
    ON CONFLICT (topic, fingerprint) DO UPDATE SET last_seen = excluded.last_seen;

-- name: take_old_unknown
DELETE FROM ulak.unknown_open
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM ulak.unknown_open
                          WHERE since < now() - $1::float8 * interval '1 second'
                          LIMIT $2 FOR UPDATE SKIP LOCKED))
RETURNING notification_id, channel, target_key;

-- name: close_unknown
-- UNKNOWN that no receipt settled in time stays UNKNOWN, with the reason `closed`.
UPDATE ulak.deliveries d
   SET reason = 'closed', updated_at = $4
  FROM unnest($1::uuid[], $2::text[], $3::bytea[]) AS u (notification_id, channel, target_key)
 WHERE d.notification_id = u.notification_id AND d.channel = u.channel AND d.target_key = u.target_key
   AND d.notification_id BETWEEN $5 AND $6
   AND d.status = 'UNKNOWN'
RETURNING d.notification_id, d.channel, d.target_key, d.attempt, d.provider, d.message_class;

-- name: dedup_blocks
SELECT (pg_relation_size('ulak.notification_dedup') / current_setting('block_size')::int)::bigint;

-- name: prune_dedup
-- By blocks $1 up to $2 of the heap: an index on `until` would tax every acceptance for the sake of this.
DELETE FROM ulak.notification_dedup
 WHERE ctid >= format('(%s,0)', $1::bigint)::tid AND ctid < format('(%s,0)', $2::bigint)::tid AND until < now();

-- name: prune_applied_receipts
DELETE FROM ulak.applied_receipts
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM ulak.applied_receipts
                          WHERE applied_at < now() - $1::float8 * interval '1 second'
                          ORDER BY applied_at LIMIT $2 FOR UPDATE SKIP LOCKED));

-- name: prune_parked_receipts
-- Orphans: their send was never recorded, so they say nothing about anything.
DELETE FROM ulak.parked_receipts
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM ulak.parked_receipts
                          WHERE received_at < now() - $1::float8 * interval '1 second'
                          LIMIT $2 FOR UPDATE SKIP LOCKED))
RETURNING provider;

-- name: prune_devices
DELETE FROM ulak.devices
 WHERE id = ANY (ARRAY(SELECT id FROM ulak.devices
                        WHERE last_seen < now() - $1::float8 * interval '1 second'
                        ORDER BY last_seen LIMIT $2 FOR UPDATE SKIP LOCKED));

-- name: prune_windows
-- One that a router is claiming anew at this moment is left to it.
DELETE FROM ulak.content_window
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM ulak.content_window
                          WHERE until < now()
                          ORDER BY until LIMIT $1 FOR UPDATE SKIP LOCKED));

-- name: prune_import_errors
-- Of imports that nobody has sent a line to for so long ($1 seconds), at most $2.
DELETE FROM ulak.import_errors
 WHERE (run_id, line) IN (SELECT e.run_id, e.line
                            FROM ulak.import_runs r JOIN ulak.import_errors e ON e.run_id = r.id
                           WHERE r.updated_at < now() - $1::float8 * interval '1 second'
                           LIMIT $2);

-- name: prune_import_runs
DELETE FROM ulak.import_runs
 WHERE updated_at < now() - $1::float8 * interval '1 second'
   AND NOT EXISTS (SELECT FROM ulak.import_errors e WHERE e.run_id = import_runs.id);

-- name: due_otp
SELECT notification_id FROM ulak.otp_due
 WHERE due_at < now() AND notification_id > $1
 ORDER BY notification_id
 LIMIT $2;

-- name: pending_among
SELECT DISTINCT notification_id FROM ulak.deliveries
 WHERE notification_id = ANY ($1::uuid[]) AND notification_id BETWEEN $2 AND $3 AND status = 'PENDING';

-- name: remove_otp_due
-- Codes whose delivery was taken up or settled need no direct dispatch any more.
DELETE FROM ulak.otp_due WHERE notification_id = ANY ($1::uuid[]);

-- name: take_over_codes
-- The codes that are current for a phone and purpose, once their life is over.
DELETE FROM ulak.otp_current
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM ulak.otp_current WHERE expires_at < now() LIMIT $1 FOR UPDATE SKIP LOCKED))
RETURNING notification_id;

-- name: clear_codes
UPDATE ulak.contents
   SET sealed = NULL
 WHERE notification_id = ANY ($1::uuid[]) AND notification_id BETWEEN $2 AND $3
   AND purpose = 'otp-v1' AND sealed IS NOT NULL;
