-- What decisions are made of (shared/facts). Batches travel as arrays.

-- name: devices
SELECT user_id, token_key, token_sealed, platform, app_id
  FROM ulak.devices
 WHERE user_id = ANY($1::bigint[]) AND active AND permission <> 'denied'
 ORDER BY user_id, id

-- name: suppressions
-- $3: now.
SELECT s.channel, s.address_key, s.scope
  FROM unnest($1::text[], $2::bytea[]) AS g(channel, address_key)
  JOIN ulak.suppressions s ON s.channel = g.channel AND s.address_key = g.address_key
 WHERE s.expires_at IS NULL OR s.expires_at > $3

-- name: window_holders
-- Who has said it, within the window. $4: now.
SELECT w.type, w.user_id, w.business_key, w.notification_id
  FROM unnest($1::text[], $2::bigint[], $3::text[]) AS g(type, user_id, business_key)
  JOIN ulak.content_window w
    ON w.type = g.type AND w.user_id = g.user_id AND w.business_key = g.business_key
 WHERE w.until > $4

-- name: allow_lists
SELECT id, allow_list FROM ulak.api_keys WHERE id = ANY($1::uuid[])

-- name: counted
-- What went on a user's day, by days given: one array per column. $6 and $7 bound the ids. A delivery is made when its
-- notification is decided; one that was refused then, or could not be written, has gone to nobody.
SELECT g.position, array_agg(n.id) AS ids
  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[]) WITH ORDINALITY
       AS g(user_id, category, channel, begins, ends, position)
  JOIN ulak.notifications n ON n.user_id = g.user_id AND n.id BETWEEN $6 AND $7 AND n.mode <> 'test'
  JOIN ulak.notification_types t ON t.type = n.type AND t.category = g.category
 WHERE EXISTS (SELECT FROM ulak.deliveries d
                WHERE d.notification_id = n.id AND d.notification_id BETWEEN $6 AND $7 AND d.channel = g.channel
                  AND d.target_key <> '' AND d.created_at >= g.begins AND d.created_at < g.ends
                  AND NOT (d.attempt = 0 AND (d.status = 'FAILED' OR d.status = 'SKIPPED'
                                              AND d.reason IN ('suppressed', 'not_on_allow_list'))))
 GROUP BY g.position

-- name: recipient
SELECT user_id, email_key, email_sealed, phone_key, phone_sealed, locale, time_zone
  FROM ulak.recipients
 WHERE external_id = $1
