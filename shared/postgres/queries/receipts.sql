-- What the projector does with receipts, in one transaction per batch.

-- name: apply_once
-- Which of these statements were not applied before; the rest is known.
INSERT INTO ulak.applied_receipts (provider, event_key, applied_at)
SELECT r.provider, r.event_key, $3
  FROM unnest($1::text[], $2::bytea[]) AS r (provider, event_key)
 ORDER BY r.provider, r.event_key
    ON CONFLICT DO NOTHING
RETURNING provider, event_key;

-- name: lock_deliveries
-- In key order, as every batch locks (no deadlocks). $4 and $5 bound the ids so that partitions are pruned at run time.
SELECT notification_id, channel, target_key, status, reason, attempt, provider, updated_at
  FROM ulak.deliveries
 WHERE notification_id = ANY ($1::uuid[]) AND notification_id BETWEEN $4 AND $5
   AND (notification_id, channel, target_key) IN (SELECT * FROM unnest($1::uuid[], $2::text[], $3::bytea[]))
 ORDER BY notification_id, channel, target_key
   FOR UPDATE;

-- name: settle
-- To DELIVERED or FAILED from the status that was seen; the claim goes, so that a worker that still holds it finds it gone.
UPDATE ulak.deliveries d
   SET status = s.status, reason = s.reason, attempt = s.attempt, provider = s.provider,
       provider_message_id = s.message_id, claim_id = NULL, lease_until = NULL, updated_at = $9
  FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::text[], $5::text[], $6::int[], $7::text[], $8::text[],
              $12::text[])
       AS s (notification_id, channel, target_key, status, reason, attempt, provider, message_id, seen)
 WHERE d.notification_id = s.notification_id AND d.channel = s.channel AND d.target_key = s.target_key
   AND d.notification_id BETWEEN $10 AND $11
   AND d.status = s.seen;

-- name: close_open
DELETE FROM ulak.unknown_open u
 USING unnest($1::uuid[], $2::text[], $3::bytea[]) AS k (notification_id, channel, target_key)
 WHERE u.notification_id = k.notification_id AND u.channel = k.channel AND u.target_key = k.target_key;

-- name: park
INSERT INTO ulak.parked_receipts
       (id, notification_id, channel, target_key, attempt, kind, provider, detail, received_at)
SELECT p.id, p.notification_id, p.channel, p.target_key, p.attempt, p.kind, p.provider, p.detail, p.received_at
  FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[], $5::int[], $6::text[], $7::text[], $8::text[],
              $9::timestamptz[])
       AS p (id, notification_id, channel, target_key, attempt, kind, provider, detail, received_at)
 ORDER BY p.id
    ON CONFLICT DO NOTHING;

-- name: suppress
-- Until somebody removes it, even where a pause with an end was there before.
INSERT INTO ulak.suppressions AS s (channel, address_key, reason, source)
SELECT g.channel, g.address_key, g.reason,
       CASE g.reason WHEN 'opted_out' THEN 'stop' WHEN 'complaint' THEN 'complaint' ELSE 'bounce' END
  FROM unnest($1::text[], $2::bytea[], $3::text[]) AS g (channel, address_key, reason)
 ORDER BY g.channel, g.address_key
ON CONFLICT (channel, address_key, scope) DO UPDATE
   SET reason = excluded.reason, source = excluded.source, expires_at = NULL
 WHERE s.expires_at IS NOT NULL;

-- name: log_receipts
-- Ids are made from the statements, so that a topic that is read again from its beginning logs nothing twice.
INSERT INTO ulak.delivery_log
       (notification_id, id, kind, channel, target_key, attempt, result, provider, detail)
SELECT l.notification_id, l.id, 'receipt', l.channel, l.target_key, l.attempt, l.result, l.provider, l.detail
  FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[], $5::int[], $6::text[], $7::text[], $8::text[])
       AS l (notification_id, id, channel, target_key, attempt, result, provider, detail)
 ORDER BY l.notification_id, l.id
    ON CONFLICT DO NOTHING;
