-- Sender profiles as they are administered (shared/postgres/sender_profile.py).

-- name: one
SELECT * FROM ulak.sender_profiles WHERE name = $1

-- name: page
SELECT * FROM ulak.sender_profiles WHERE name > $1 ORDER BY name LIMIT $2

-- name: put
INSERT INTO ulak.sender_profiles AS s
       (name, from_address, from_name, reply_to, return_path, dkim_domain, dkim_selector, dkim_key_sealed)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (name) DO UPDATE
   SET from_address = excluded.from_address, from_name = excluded.from_name, reply_to = excluded.reply_to,
       return_path = excluded.return_path, dkim_domain = excluded.dkim_domain,
       dkim_selector = excluded.dkim_selector, dkim_key_sealed = excluded.dkim_key_sealed,
       revision = s.revision + 1, updated_at = now()

-- name: remove
DELETE FROM ulak.sender_profiles WHERE name = $1
