-- What the relay reads and removes: the outbox (its own and its sources'), due work, metrics.

-- name: claim_outbox
-- Takes due rows of one class out of the outbox. The caller commits once the broker has them; a rollback, or a kill -9,
-- puts them back. No cursor over ids: a row that commits late is simply still there (O1).
-- $2 is where reading starts: under a long transaction dead entries pile up at the head of the index (O6).
-- headers as text: one row whose headers do not decode must not keep a whole claim from being read (K15).
-- What is sealed under a key that this relay lacks ($4: such values' headers) is left to others until it has been due for
-- $5 seconds. What is skipped over is what became due since, so that reading costs no more however many rows wait.
DELETE FROM ulak.outbox
 WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM ulak.outbox
         WHERE message_class = $1 AND NOT ordered AND available_at >= $2 AND available_at <= now()
           AND NOT (sealed AND available_at > now() - $5::float8 * interval '1 second' AND EXISTS (
                   SELECT FROM unnest($4::bytea[]) AS lacking (header)
                    WHERE substr(payload, 1, octet_length(header)) = header))
         ORDER BY available_at
         LIMIT $3
           FOR UPDATE SKIP LOCKED))
RETURNING id, topic, key, payload, headers::text, available_at, sequence, ordered, sealed;

-- name: claim_outbox_keeping
-- The same from a source, which keeps what was published for some hours.
WITH taken AS (
    DELETE FROM ulak.outbox
     WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM ulak.outbox
             WHERE message_class = $1 AND NOT ordered AND available_at >= $2 AND available_at <= now()
               AND NOT (sealed AND available_at > now() - $5::float8 * interval '1 second' AND EXISTS (
                       SELECT FROM unnest($4::bytea[]) AS lacking (header)
                        WHERE substr(payload, 1, octet_length(header)) = header))
             ORDER BY available_at
             LIMIT $3
               FOR UPDATE SKIP LOCKED))
    RETURNING id, topic, key, payload, headers, available_at, sequence, ordered, sealed
), kept AS (
    INSERT INTO ulak.outbox_published (id, message_class, topic, key, payload, headers, sequence, ordered, sealed)
    SELECT id, $1, topic, key, payload, headers, sequence, ordered, sealed FROM taken
)
SELECT id, topic, key, payload, headers::text, available_at, sequence, ordered, sealed FROM taken;

-- name: recent_keys
-- Keys of ordered rows that became due lately, each once; with them the newest such row's time and how many rows.
SELECT coalesce(array_agg(DISTINCT key), '{}') AS keys, max(available_at) AS newest, count(*) AS rows
  FROM (SELECT key, available_at FROM ulak.outbox
         WHERE message_class = $1 AND ordered AND available_at >= $2 AND available_at <= now()
         ORDER BY available_at
         LIMIT $3) AS recent;

-- name: next_keys
-- The next $3 keys that have ordered rows, from $2 on, in the order of the keys: a step in the index for each. With the
-- time of this look: what was due by then has been seen.
WITH RECURSIVE keys AS (
    (SELECT key FROM ulak.outbox WHERE ordered AND message_class = $1 AND key >= $2 ORDER BY key LIMIT 1)
    UNION ALL
    SELECT (SELECT o.key FROM ulak.outbox o
             WHERE o.ordered AND o.message_class = $1 AND o.key > keys.key ORDER BY o.key LIMIT 1)
      FROM keys WHERE keys.key IS NOT NULL
)
SELECT ARRAY(SELECT key FROM keys WHERE key IS NOT NULL LIMIT $3) AS keys, now() AS at;

-- name: claim_ordered
-- Takes rows of these keys, of each at most $3, none before one of its own key that goes first (O3): what is locked by
-- another relay, or not due yet, or left to others (as in claim_outbox: $5, $6), stops its key. That suffices for two
-- relays never to work on one key at a time, also when the other one's commit falls between this statement's snapshot and
-- its locks: the rows which that commit removed are then seen but not to be locked, and stop the key as well. Rows set
-- aside (infinity) stop nothing.
WITH waiting AS MATERIALIZED (
    SELECT o.* FROM unnest($2::bytea[]) AS wanted (key)
     CROSS JOIN LATERAL (
            SELECT id, ctid AS place, key, sequence,
                   available_at <= now() AND NOT (
                       sealed AND available_at > now() - $6::float8 * interval '1 second' AND EXISTS (
                       SELECT FROM unnest($5::bytea[]) AS lacking (header)
                        WHERE substr(payload, 1, octet_length(header)) = header)) AS due
              FROM ulak.outbox
             WHERE ordered AND message_class = $1 AND key = wanted.key AND available_at < 'infinity'
             ORDER BY sequence
             LIMIT $3) AS o
), free AS MATERIALIZED (
    SELECT id FROM ulak.outbox
     WHERE ctid = ANY (ARRAY(SELECT place FROM waiting WHERE due))
       FOR UPDATE SKIP LOCKED
), next AS (
    SELECT place, bool_and(free.id IS NOT NULL) OVER (PARTITION BY key ORDER BY sequence) AS is_next
      FROM waiting LEFT JOIN free USING (id)
), taken AS (
    DELETE FROM ulak.outbox
     WHERE ctid = ANY (ARRAY(SELECT place FROM next WHERE is_next))
    RETURNING id, topic, key, payload, headers, available_at, sequence, ordered, sealed
), kept AS (
    INSERT INTO ulak.outbox_published (id, message_class, topic, key, payload, headers, sequence, ordered, sealed)
    SELECT id, $1, topic, key, payload, headers, sequence, ordered, sealed FROM taken WHERE $4
)
SELECT id, topic, key, payload, headers::text, available_at, sequence, ordered, sealed FROM taken ORDER BY sequence;

-- name: return_outbox
-- Rows of a claim that the broker did not take, put back in the same transaction, where they stood: those worth another
-- try with their own time or, where that is pointless before, some seconds later; those that no attempt gets through at
-- infinity, with the error: never due, out of the way of later rows, payload kept (`ulak outbox requeue`).
INSERT INTO ulak.outbox (id, message_class, topic, key, payload, headers, sequence, ordered, sealed, error, available_at)
SELECT r.id, $2, r.topic, r.key, r.payload, r.headers::jsonb, r.sequence, r.ordered, r.sealed, r.error,
       CASE WHEN r.error IS NOT NULL THEN 'infinity'
            WHEN r.later_sec > 0 THEN now() + r.later_sec * interval '1 second'
            ELSE r.available_at END
  FROM unnest($1::uuid[], $3::text[], $4::bytea[], $5::bytea[], $6::text[], $7::timestamptz[], $8::bigint[],
              $9::boolean[], $10::boolean[], $11::text[], $12::float8[])
       AS r (id, topic, key, payload, headers, available_at, sequence, ordered, sealed, error, later_sec);

-- name: forget_published
-- What this transaction took and kept, but the broker did not get.
DELETE FROM ulak.outbox_published WHERE published_at = now() AND id = ANY ($1::uuid[]);

-- name: prune_published
DELETE FROM ulak.outbox_published
 WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM ulak.outbox_published
         WHERE published_at < now() - $1::float8 * interval '1 second'
         ORDER BY published_at
         LIMIT $2));

-- name: prune_outbox_keys
DELETE FROM ulak.outbox_keys
 WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM ulak.outbox_keys
         WHERE created_at < now() - $1::float8 * interval '1 second'
         ORDER BY created_at
         LIMIT $2));

-- name: index_rejected
INSERT INTO ulak.dead_letters (topic, fingerprint, error_class, detail, first_seen, last_seen)
SELECT 'outbox', r.fingerprint, r.error_class, r.detail, now(), now()
  FROM unnest($1::bytea[], $2::text[], $3::text[]) AS r (fingerprint, error_class, detail)
 ORDER BY r.fingerprint
    ON CONFLICT (topic, fingerprint) DO UPDATE
   SET last_seen = excluded.last_seen, error_class = excluded.error_class, detail = excluded.detail, state = 'open';

-- name: insert_outbox
-- For the relay's own parts (reaper, upkeep): hints and events, in the transaction that makes them due. Nobody else
-- publishes them, so the relays are woken.
WITH added AS (
    INSERT INTO ulak.outbox (message_class, topic, key, payload, headers)
    SELECT r.message_class, r.topic, r.key, r.payload, r.headers
      FROM unnest($1::smallint[], $2::text[], $3::bytea[], $4::bytea[], $5::jsonb[])
           AS r (message_class, topic, key, payload, headers)
)
SELECT pg_notify('ulak_outbox', '');

-- name: oldest_due
-- Seconds the oldest due row of each class has waited; classes without one are absent.
SELECT class AS message_class, extract(epoch FROM now() - oldest.available_at)::float8 AS age_sec
  FROM unnest($1::smallint[]) AS class
  CROSS JOIN LATERAL (
        SELECT available_at FROM ulak.outbox
         WHERE message_class = class AND available_at <= now()
         ORDER BY available_at LIMIT 1) AS oldest;

-- name: vacuum_pressure
-- What slows the outbox down: the oldest snapshot anyone holds, and dead rows not yet removed (O6). Other roles'
-- snapshots are shown to members of pg_read_all_stats only. And what waits for an operator, counted up to a limit.
SELECT coalesce((SELECT max(extract(epoch FROM now() - xact_start)) FROM pg_stat_activity
                  WHERE backend_xmin IS NOT NULL AND datname = current_database()), 0)::float8 AS oldest_snapshot_sec,
       coalesce((SELECT n_dead_tup FROM pg_stat_user_tables
                  WHERE schemaname = 'ulak' AND relname = 'outbox'), 0)::bigint AS dead_rows,
       (SELECT count(*) FROM (
               SELECT FROM ulak.outbox
                WHERE message_class = ANY ('{0,1,2,3}') AND available_at = 'infinity' LIMIT 10000) AS aside) AS set_aside;

-- name: claim_deferred
-- What is due, each pushed ahead: should its hint be lost, or this process die here, it is due again then.
UPDATE ulak.deferred
   SET due_at = now() + $2::float8 * interval '1 second'
 WHERE id = ANY (ARRAY(
        SELECT id FROM ulak.deferred
         WHERE due_at <= now()
         ORDER BY due_at
         LIMIT $1
           FOR UPDATE SKIP LOCKED))
RETURNING id, kind, notification_id, channel, target_key;

-- name: remove_deferred
DELETE FROM ulak.deferred WHERE id = ANY ($1::uuid[]);

-- name: load_deferred_deliveries
-- Those that are not settled. $1 ids, $2 channels, $3 target keys, one each; $4 and $5 bound the ids. Left out is what a
-- pause holds in a row of its own, which is none of these ($6).
SELECT d.notification_id, d.channel, d.target_key, d.status, d.attempt, d.message_class, d.campaign_id, d.chunk,
       n.user_id, n.traceparent, d.next_attempt_at <= now() AS due
  FROM unnest($1::uuid[], $2::text[], $3::bytea[]) AS g (notification_id, channel, target_key)
  JOIN ulak.deliveries d
    ON d.notification_id = g.notification_id AND d.channel = g.channel AND d.target_key = g.target_key
  JOIN ulak.notifications n ON n.id = d.notification_id AND n.id BETWEEN $4 AND $5
 WHERE d.notification_id = ANY ($1::uuid[]) AND d.notification_id BETWEEN $4 AND $5
   AND d.status IN ('PENDING', 'SENDING')
   AND NOT EXISTS (SELECT FROM ulak.deferred p
                    WHERE p.notification_id = d.notification_id AND p.channel = d.channel
                      AND p.target_key = d.target_key AND p.pause_id IS NOT NULL AND p.id <> ALL ($6::uuid[]));

-- name: load_notifications
-- $2 and $3 bound the ids so that partitions are pruned at run time.
SELECT id, state, message_class, user_id, traceparent
  FROM ulak.notifications
 WHERE id = ANY ($1::uuid[]) AND id BETWEEN $2 AND $3;
