-- The sweep: what is owed a hint although no hint came (semantics.md section 1), by ranges of the primary key.

-- name: longest_ttl
SELECT coalesce(max(ttl_seconds), 0)::int FROM ulak.notification_types;

-- name: begin_horizon
INSERT INTO ulak.sweep_progress (horizon_sec, swept_to) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: lock_horizon
-- One relay at a time sweeps a horizon; the lock goes with the transaction, so a killed one leaves nothing behind.
SELECT swept_to FROM ulak.sweep_progress WHERE horizon_sec = $1 FOR UPDATE SKIP LOCKED;

-- name: save_horizon
UPDATE ulak.sweep_progress SET swept_to = $2 WHERE horizon_sec = $1;

-- name: forget_horizons
-- Horizons that settings no longer name.
DELETE FROM ulak.sweep_progress WHERE horizon_sec <> ALL ($1::int[]);

-- name: page
-- The next ids of a range: how many (at most $3) and the last of them.
SELECT count(*)::int AS seen, (array_agg(id ORDER BY id DESC))[1] AS last
  FROM (SELECT id FROM ulak.notifications WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3) AS page;

-- name: owed_notifications
-- Still ACCEPTED, or DEFERRED with nothing that will wake them later.
SELECT n.id, n.state, n.message_class, n.user_id, n.traceparent
  FROM ulak.notifications n
 WHERE n.id BETWEEN $1 AND $2
   AND (n.state = 'ACCEPTED'
        OR n.state = 'DEFERRED'
       AND NOT EXISTS (SELECT FROM ulak.deferred d
                        WHERE d.notification_id = n.id AND (d.due_at > $3 OR d.pause_id IS NOT NULL)))
 ORDER BY n.id;

-- name: owed_deliveries
-- PENDING although their time has come, and not held by a pause. Of an e-mail request's recipients one: its hint stands for the message.
SELECT DISTINCT ON (d.notification_id, d.channel, CASE WHEN c.purpose IS NULL THEN d.target_key END)
       d.notification_id, d.channel, d.target_key, d.attempt, d.message_class, d.campaign_id, d.chunk,
       n.user_id, n.traceparent
  FROM ulak.deliveries d
  JOIN ulak.notifications n ON n.id = d.notification_id AND n.id BETWEEN $1 AND $2
  LEFT JOIN ulak.contents c
    ON c.notification_id = d.notification_id AND c.channel = d.channel AND c.notification_id BETWEEN $1 AND $2
   AND c.channel = 'EMAIL' AND c.purpose = 'email-v1'
 WHERE d.notification_id BETWEEN $1 AND $2 AND d.status = 'PENDING' AND d.next_attempt_at <= $3
   AND NOT EXISTS (SELECT FROM ulak.deferred p
                    WHERE p.notification_id = d.notification_id AND p.channel = d.channel
                      AND p.target_key = d.target_key AND p.pause_id IS NOT NULL)
 ORDER BY d.notification_id, d.channel, CASE WHEN c.purpose IS NULL THEN d.target_key END, d.target_key;

-- name: clear_expired_codes
-- One-time codes are not kept past their life (data.md, Content).
UPDATE ulak.contents c
   SET sealed = NULL
  FROM ulak.notifications n
 WHERE c.notification_id BETWEEN $1 AND $2 AND c.purpose = 'otp-v1' AND c.sealed IS NOT NULL
   AND n.id = c.notification_id AND n.id BETWEEN $1 AND $2 AND n.expires_at <= $3;
