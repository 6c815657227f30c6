-- What operators say of provider accounts, and what became of them (shared/postgres/provider.py).

-- name: drain
-- $1 account, $2 note, $3 who. Nothing where it is drained already.
INSERT INTO ulak.provider_drains (account, note, drained_by) VALUES ($1, $2, $3)
    ON CONFLICT DO NOTHING
RETURNING true;

-- name: enable
DELETE FROM ulak.provider_drains WHERE account = $1 RETURNING true;

-- name: add_event
-- $1 account, $2 class or NULL, $3 from, $4 to, $5 reason, $6 actor or NULL.
INSERT INTO ulak.provider_events (account, message_class, from_state, to_state, reason, actor)
VALUES ($1, $2, $3, $4, $5, $6);

-- name: events
-- The newest first. $1 account or NULL for all, $2 how many.
SELECT at, account, message_class, from_state, to_state, reason, actor
  FROM ulak.provider_events
 WHERE $1::text IS NULL OR account = $1
 ORDER BY id DESC
 LIMIT $2;

-- name: prune_events
-- $1 older than, $2 how many at most.
DELETE FROM ulak.provider_events
 WHERE id IN (SELECT id FROM ulak.provider_events WHERE at < $1 ORDER BY id LIMIT $2);
