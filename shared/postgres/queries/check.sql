-- name: settings
SELECT name, setting FROM pg_settings WHERE name = ANY($1::text[])

-- name: in_recovery
SELECT pg_is_in_recovery()

-- name: encoding
SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()

-- name: oldest_transaction
-- Seconds since the oldest transaction of any session began; it keeps dead rows of the hot tables alive (case O6).
SELECT coalesce(extract(epoch FROM max(clock_timestamp() - xact_start)), 0)::float8
  FROM pg_stat_activity
 WHERE pid <> pg_backend_pid() AND datname = current_database()
