-- name: cost_of_messages
-- What was charged for notifications of a time, by what is asked for. $1 smallest id, $2 the first id after, $3 to $5
-- whether by type, by day (UTC, of the notification) and by provider. Only ids bound it, so partitions are pruned.
SELECT CASE WHEN $3 THEN n.type END AS type, CASE WHEN $4 THEN (n.created_at AT TIME ZONE 'UTC')::date END AS day,
       CASE WHEN $5 THEN d.provider END AS provider, d.price_currency AS currency, count(*) AS messages,
       sum(d.segments) AS segments, sum(d.price_micros)::bigint AS micros
  FROM ulak.deliveries d
  JOIN ulak.notifications n ON n.id = d.notification_id AND n.id >= $1 AND n.id < $2
 WHERE d.notification_id >= $1 AND d.notification_id < $2 AND d.channel = 'SMS' AND d.segments IS NOT NULL
   AND d.mode <> 'test'
 GROUP BY 1, 2, 3, 4
 ORDER BY 1, 2, 3, 4;
