-- What a pause holds (shared/delivery/pause.py, services/relay/deferred.py, services/relay/release.py).

-- name: load_facts
-- What of a notification pauses go by. $1 ids, $2 smallest, $3 largest, $4 channel. templates: of what was rendered, the
-- one; of an e-mail request, which is rendered when it is sent, all that would be taken now.
SELECT n.id, n.type, n.api_key_id,
       CASE WHEN c.purpose = 'email-v1'
            THEN ARRAY(SELECT format('%s/%s/%s/%s', t.type, t.channel, t.locale, t.version)
                         FROM ulak.templates t WHERE t.type = n.type AND t.channel = $4 AND t.active)
            ELSE ARRAY[format('%s/%s/%s/%s', n.type, c.channel, c.locale, c.template_version)] END AS templates
  FROM ulak.notifications n
  LEFT JOIN ulak.contents c
    ON c.notification_id = n.id AND c.channel = $4 AND c.notification_id BETWEEN $2 AND $3
 WHERE n.id = ANY ($1::uuid[]) AND n.id BETWEEN $2 AND $3;

-- name: hold
-- One row in `deferred` for each delivery whose pause is in force, due when the delivery expires, so that its end is told
-- of then; under a lane's pause nobody would read that it is, so there it waits for the end of the pause. Arrays, one
-- entry a delivery: $1 ids, $2 channels, $3 target keys, $4 pauses; $5 and $6 bound the ids. Answers with positions in the arrays,
-- from 1, of what is held now, and whether it is since this very statement.
-- The shared lock makes a resume wait for this transaction: once it has committed, nothing is held under that pause anew.
WITH in_force AS MATERIALIZED (
    SELECT id, kind FROM ulak.pauses WHERE id = ANY ($4::uuid[]) AND resumed_at IS NULL ORDER BY id FOR SHARE
), wanted AS MATERIALIZED (
    SELECT h.*, in_force.kind FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::uuid[]) WITH ORDINALITY
                    AS h (notification_id, channel, target_key, pause_id, position)
      JOIN in_force ON in_force.id = h.pause_id
), held AS (
    INSERT INTO ulak.deferred (due_at, kind, notification_id, channel, target_key, pause_id)
    SELECT CASE w.kind WHEN 'lane' THEN 'infinity' ELSE d.expires_at END, 'delivery', w.notification_id, w.channel, w.target_key, w.pause_id
      FROM wanted w
      JOIN ulak.deliveries d
        ON d.notification_id = w.notification_id AND d.channel = w.channel AND d.target_key = w.target_key
       AND d.notification_id BETWEEN $5 AND $6
     ORDER BY w.pause_id, w.notification_id, w.channel, w.target_key
        ON CONFLICT DO NOTHING
    RETURNING notification_id, channel, target_key
)
SELECT w.position, held.notification_id IS NOT NULL AS is_new
  FROM wanted w LEFT JOIN held USING (notification_id, channel, target_key);

-- name: lock_releasing
-- Pauses that have ended and under which deliveries may wait still; no two relays let go of one pause's at a time.
-- $1: deliveries a second where the resume named no pace.
SELECT id, coalesce(release_per_second, $1) AS per_second, coalesce(released_to, resumed_at) AS released_to, now() AS at
  FROM ulak.pauses
 WHERE resumed_at IS NOT NULL AND ended_at IS NULL
 ORDER BY resumed_at
   FOR UPDATE SKIP LOCKED;

-- name: release
-- The next $2 of a pause ($1) are due now, in the order of their acceptance.
WITH next AS (
    SELECT id, row_number() OVER (ORDER BY notification_id, channel, target_key) AS position
      FROM (SELECT id, notification_id, channel, target_key FROM ulak.deferred
             WHERE pause_id = $1
             ORDER BY notification_id, channel, target_key
             LIMIT $2
               FOR UPDATE SKIP LOCKED) AS first
), let_go AS (
    UPDATE ulak.deferred d
       SET pause_id = NULL, due_at = now() + next.position * interval '1 microsecond'
      FROM next WHERE d.id = next.id
    RETURNING d.id
)
SELECT count(*)::int FROM let_go;

-- name: save_release
-- Up to when its pace is used up; and, where nothing waits any more, that it is over: nothing is held under it anew.
UPDATE ulak.pauses
   SET released_to = $2,
       ended_at = CASE WHEN NOT EXISTS (SELECT FROM ulak.deferred WHERE pause_id = $1) THEN now() END
 WHERE id = $1
RETURNING ended_at IS NOT NULL AS ended;

-- name: count_waiting
-- Pauses in force by kind, and what waits under these and under those that are being released; $1 at most of each.
SELECT p.kind, count(*) FILTER (WHERE p.resumed_at IS NULL)::int AS in_force, coalesce(sum(w.waiting), 0)::bigint AS waiting
  FROM ulak.pauses p
 CROSS JOIN LATERAL (SELECT count(*) AS waiting
                       FROM (SELECT FROM ulak.deferred WHERE pause_id = p.id LIMIT $1) AS found) AS w
 WHERE p.ended_at IS NULL
 GROUP BY p.kind;
