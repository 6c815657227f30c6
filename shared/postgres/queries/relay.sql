-- What the relay reads and removes: the outbox (its own and its sources'), due work, metrics.

-- name: claim_outbox
-- Takes due rows of one class out of the outbox. The caller commits once the broker has them; a rollback, or a kill -9,
-- puts them back. No cursor over ids: a row that commits late is simply still there (O1).
-- $2 is where reading starts: under a long transaction dead entries pile up at the head of the index (O6).
DELETE FROM ulak.outbox
 WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM ulak.outbox
         WHERE message_class = $1 AND available_at >= $2 AND available_at <= now()
         ORDER BY available_at
         LIMIT $3
           FOR UPDATE SKIP LOCKED))
RETURNING id, topic, key, payload, headers, available_at;

-- name: return_outbox
-- Rows of a claim that the broker did not take, put back in the same transaction: those worth another try with their own
-- time, those that no attempt gets through at infinity: never due, out of the way of later rows, payload kept.
-- `UPDATE ... SET available_at = now()` puts one of these in line again.
INSERT INTO ulak.outbox (id, message_class, topic, key, payload, headers, available_at)
SELECT r.id, $2, r.topic, r.key, r.payload, r.headers,
       CASE WHEN r.rejected THEN 'infinity'::timestamptz ELSE r.available_at END
  FROM unnest($1::uuid[], $3::text[], $4::bytea[], $5::bytea[], $6::jsonb[], $7::timestamptz[], $8::boolean[])
       AS r (id, topic, key, payload, headers, available_at, rejected);

-- name: index_rejected
INSERT INTO ulak.dead_letters (topic, fingerprint, error_class, detail, first_seen, last_seen)
SELECT 'outbox', r.fingerprint, r.error_class, r.detail, now(), now()
  FROM unnest($1::bytea[], $2::text[], $3::text[]) AS r (fingerprint, error_class, detail)
 ORDER BY r.fingerprint
    ON CONFLICT (topic, fingerprint) DO UPDATE
   SET last_seen = excluded.last_seen, error_class = excluded.error_class, detail = excluded.detail, state = 'open';

-- name: insert_outbox
-- For the relay's own parts (reaper, upkeep): hints and events, in the transaction that makes them due.
INSERT INTO ulak.outbox (message_class, topic, key, payload, headers)
SELECT r.message_class, r.topic, r.key, r.payload, r.headers
  FROM unnest($1::smallint[], $2::text[], $3::bytea[], $4::bytea[], $5::jsonb[])
       AS r (message_class, topic, key, payload, headers);

-- name: oldest_due
-- Seconds the oldest due row of each class has waited; classes without one are absent.
SELECT class AS message_class, extract(epoch FROM now() - oldest.available_at)::float8 AS age_sec
  FROM unnest($1::smallint[]) AS class
  CROSS JOIN LATERAL (
        SELECT available_at FROM ulak.outbox
         WHERE message_class = class AND available_at <= now()
         ORDER BY available_at LIMIT 1) AS oldest;

-- name: vacuum_pressure
-- What slows the outbox down: the oldest snapshot anyone holds, and dead rows not yet removed (O6).
SELECT coalesce((SELECT max(extract(epoch FROM now() - xact_start)) FROM pg_stat_activity
                  WHERE backend_xmin IS NOT NULL AND datname = current_database()), 0)::float8 AS oldest_snapshot_sec,
       coalesce((SELECT n_dead_tup FROM pg_stat_user_tables
                  WHERE schemaname = 'ulak' AND relname = 'outbox'), 0)::bigint AS dead_rows;

-- name: claim_deferred
-- Due notifications, each pushed ahead: should its hint be lost, or this process die here, it is due again then.
UPDATE ulak.deferred
   SET due_at = now() + $2::float8 * interval '1 second'
 WHERE id = ANY (ARRAY(
        SELECT id FROM ulak.deferred
         WHERE kind = 'notification' AND pause_id IS NULL AND due_at <= now()
         ORDER BY due_at
         LIMIT $1
           FOR UPDATE SKIP LOCKED))
RETURNING id, notification_id;

-- name: remove_deferred
DELETE FROM ulak.deferred WHERE id = ANY ($1::uuid[]);

-- name: load_notifications
-- $2 and $3 bound the ids so that partitions are pruned at run time.
SELECT id, state, message_class, user_id, traceparent
  FROM ulak.notifications
 WHERE id = ANY ($1::uuid[]) AND id BETWEEN $2 AND $3;
