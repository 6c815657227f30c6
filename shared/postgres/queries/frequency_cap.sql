-- Frequency caps as they are administered (shared/postgres/frequency_cap.py).

-- name: one
SELECT * FROM ulak.frequency_caps WHERE category = $1 AND channel = $2

-- name: page
SELECT * FROM ulak.frequency_caps WHERE (category, channel) > ($1, $2) ORDER BY category, channel LIMIT $3

-- name: put
-- No row: it was so already.
INSERT INTO ulak.frequency_caps AS c (category, channel, per_day) VALUES ($1, $2, $3)
ON CONFLICT (category, channel) DO UPDATE
   SET per_day = excluded.per_day, revision = c.revision + 1, updated_at = now()
 WHERE c.per_day IS DISTINCT FROM excluded.per_day
RETURNING xmax = 0 AS created

-- name: remove
DELETE FROM ulak.frequency_caps WHERE category = $1 AND channel = $2
