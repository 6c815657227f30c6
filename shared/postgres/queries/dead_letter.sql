-- Dead letters as operators see, replay and end them (migration 0004). Keys come as topic and fingerprint.
-- The LIMIT of a LATERAL keeps it a look-up for each letter, which prunes partitions: a join could read all of them.

-- name: summary
SELECT topic,
       count(*) FILTER (WHERE origin_topic IS NULL AND error_class = 'exhausted') AS exhausted,
       count(*) FILTER (WHERE origin_topic IS NULL AND error_class <> 'exhausted') AS failed,
       count(*) FILTER (WHERE origin_topic IS NOT NULL) AS poison,
       min(first_seen) AS oldest, max(last_seen) AS newest
  FROM ulak.dead_letters
 WHERE state = 'open'
 GROUP BY topic
 ORDER BY topic

-- name: letters
-- A page after ($11, $12). $1 topic; NULL is any: $2 state, $3 error, $4 type, $5 and $6 first seen from and before,
-- $7 campaign, $8 provider, $9 kind, $10 last seen until then. $13 limit. `FOR UPDATE` may follow.
SELECT l.topic, l.fingerprint, l.notification_id, l.channel, l.target_key, l.error_class, l.detail, l.state, l.note,
       l.first_seen, l.last_seen, l.origin_topic, l.dlq_partition, l.dlq_offset, l.run_id, l.ended_by,
       n.type, d.provider, d.attempt
  FROM ulak.dead_letters l
  LEFT JOIN LATERAL (SELECT type FROM ulak.notifications WHERE id = l.notification_id LIMIT 1) n ON true
  LEFT JOIN LATERAL (
       SELECT provider, attempt, campaign_id FROM ulak.deliveries
        WHERE notification_id = l.notification_id AND channel = l.channel AND target_key = l.target_key
        LIMIT 1) d ON true
 WHERE l.topic = $1
   AND ($2::text IS NULL OR l.state = $2)
   AND ($3::text IS NULL OR l.error_class = $3 OR position(lower($3) IN lower(l.detail)) > 0)
   AND ($4::text IS NULL OR n.type = $4)
   AND ($5::timestamptz IS NULL OR l.first_seen >= $5)
   AND ($6::timestamptz IS NULL OR l.first_seen < $6)
   AND ($7::uuid IS NULL OR d.campaign_id = $7)
   AND ($8::text IS NULL OR d.provider = $8)
   AND ($9::text IS NULL OR $9 = CASE WHEN l.origin_topic IS NOT NULL THEN 'poison'
                                      WHEN l.error_class = 'exhausted' THEN 'exhausted' ELSE 'failed' END)
   AND ($10::timestamptz IS NULL OR l.last_seen <= $10)
   AND (l.first_seen, l.fingerprint) > ($11::timestamptz, $12::bytea)
 ORDER BY l.first_seen, l.fingerprint
 LIMIT $13

-- name: find
-- By the beginning of a fingerprint, in hex: two are enough to know that it names more than one.
SELECT l.topic, l.fingerprint, l.notification_id, l.channel, l.target_key, l.error_class, l.detail, l.state, l.note,
       l.first_seen, l.last_seen, l.origin_topic, l.dlq_partition, l.dlq_offset, l.run_id, l.ended_by,
       n.type, d.provider, d.attempt
  FROM ulak.dead_letters l
  LEFT JOIN LATERAL (SELECT type FROM ulak.notifications WHERE id = l.notification_id LIMIT 1) n ON true
  LEFT JOIN LATERAL (
       SELECT provider, attempt, campaign_id FROM ulak.deliveries
        WHERE notification_id = l.notification_id AND channel = l.channel AND target_key = l.target_key
        LIMIT 1) d ON true
 WHERE l.fingerprint BETWEEN $1::bytea AND $2::bytea
 ORDER BY l.topic, l.fingerprint
 LIMIT 2

-- name: end_letters
-- Those still open among them. $3 states, $4 notes (NULL: the one there is), $5 also those that a requeue in this very
-- transaction has closed, $6 run, $7 who.
UPDATE ulak.dead_letters l
   SET state = e.state, note = coalesce(e.note, l.note), run_id = $6, ended_by = $7
  FROM unnest($1::text[], $2::bytea[], $3::text[], $4::text[]) AS e(topic, fingerprint, state, note)
 WHERE l.topic = e.topic AND l.fingerprint = e.fingerprint AND (l.state = 'open' OR l.state = 'replayed' AND $5)

-- name: next_offsets
SELECT partition, next_offset FROM ulak.dead_letter_reads WHERE topic = $1

-- name: save_offsets
INSERT INTO ulak.dead_letter_reads (topic, partition, next_offset)
SELECT $1, r.partition, r.next_offset FROM unnest($2::int[], $3::bigint[]) AS r(partition, next_offset)
 ORDER BY r.partition
    ON CONFLICT (topic, partition) DO UPDATE SET next_offset = excluded.next_offset

-- name: index_poison
-- A message of a request whose decision has its own letters is theirs. One that was written twice is one letter.
INSERT INTO ulak.dead_letters
       (topic, fingerprint, notification_id, error_class, detail, first_seen, last_seen, origin_topic, dlq_partition, dlq_offset)
SELECT $1::text, p.fingerprint, p.notification_id, p.error_class, p.detail, p.first_seen, $2, p.origin_topic, p.partition, p.offset_
  FROM unnest($3::bytea[], $4::uuid[], $5::text[], $6::text[], $7::timestamptz[], $8::text[], $9::int[], $10::bigint[])
       AS p(fingerprint, notification_id, error_class, detail, first_seen, origin_topic, partition, offset_)
 WHERE p.notification_id IS NULL OR NOT EXISTS (
       SELECT FROM ulak.dead_letters l
        WHERE l.notification_id = p.notification_id AND l.topic = $1::text AND l.origin_topic IS NULL)
 ORDER BY p.fingerprint
    ON CONFLICT (topic, fingerprint) DO NOTHING

-- name: begin_run
INSERT INTO ulak.replay_runs (id, topic, filters, provider, rate_per_second, started_by, started_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)

-- name: load_run
SELECT id, topic, filters, provider, rate_per_second, started_by, started_at, ended_at, counts, reached_at, reached
  FROM ulak.replay_runs WHERE id = $1

-- name: lock_run
SELECT counts, reached_at, reached FROM ulak.replay_runs WHERE id = $1 AND ended_at IS NULL FOR UPDATE

-- name: save_run
UPDATE ulak.replay_runs SET counts = $2, reached_at = $3, reached = $4 WHERE id = $1

-- name: end_run
UPDATE ulak.replay_runs SET ended_at = $2 WHERE id = $1 AND ended_at IS NULL

-- name: last_runs
SELECT id, topic, filters, provider, rate_per_second, started_by, started_at, ended_at, counts, reached_at, reached
  FROM ulak.replay_runs
 WHERE $1::text IS NULL OR topic = $1
 ORDER BY started_at DESC
 LIMIT $2

-- name: prune_letters
-- What was ended long ago.
DELETE FROM ulak.dead_letters
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM ulak.dead_letters WHERE state <> 'open' AND last_seen < $1 LIMIT $2))
