-- One recipient at a time, as administration has them (shared/postgres/recipient_record.py).

-- name: one
SELECT * FROM ulak.recipients WHERE external_id = $1

-- name: one_locked
SELECT * FROM ulak.recipients WHERE external_id = $1 FOR NO KEY UPDATE

-- name: add
-- No row: somebody else added it meanwhile.
INSERT INTO ulak.recipients
       (external_id, email_key, email_sealed, phone_key, phone_sealed, locale, time_zone, attributes)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (external_id) DO NOTHING
RETURNING *

-- name: change
-- Addresses are sealed anew even where they stay, so that a key that was rotated out is needed less.
UPDATE ulak.recipients
   SET email_key = $2, email_sealed = $3, phone_key = $4, phone_sealed = $5, locale = $6, time_zone = $7,
       attributes = $8, revision = revision + 1, updated_at = now()
 WHERE external_id = $1
RETURNING *

-- name: with_address
-- Who has one of the addresses ($1 e-mail, $2 phone; NULL: not asked for), by user_id behind $3, at most $4.
SELECT user_id, external_id
  FROM (SELECT user_id, external_id FROM ulak.recipients WHERE email_key = $1
        UNION
        SELECT user_id, external_id FROM ulak.recipients WHERE phone_key = $2) AS found
 WHERE user_id > $3
 ORDER BY user_id
 LIMIT $4
