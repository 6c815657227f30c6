-- What operators say to workers (shared/postgres/control.py): read by all processes, written by `ulak`.

-- name: revision
SELECT revision FROM ulak.control_revision;

-- name: pauses
-- Those in force, oldest first.
SELECT id, kind, key, note, paused_by, paused_at FROM ulak.pauses WHERE resumed_at IS NULL ORDER BY paused_at, id;

-- name: quotas
SELECT account, scope, per_second, reserve_per_second, per_day, ramp_from, ramp_per_day, ramp_growth FROM ulak.quotas;

-- name: caller_quotas
SELECT api_key_id, type, per_minute, per_day FROM ulak.caller_quotas;

-- name: drains
SELECT account, note, drained_by, drained_at FROM ulak.provider_drains;

-- name: begin_pause
-- Nothing where such a pause is in force.
INSERT INTO ulak.pauses (kind, key, note, paused_by) VALUES ($1, $2, $3, $4)
    ON CONFLICT (kind, key) WHERE resumed_at IS NULL DO NOTHING
RETURNING id, kind, key, note, paused_by, paused_at;

-- name: pause_in_force
SELECT id, kind, key, note, paused_by, paused_at FROM ulak.pauses WHERE kind = $1 AND key = $2 AND resumed_at IS NULL;

-- name: end_pause
-- Waits for whoever is holding deliveries under it at this moment: what they held is released too.
UPDATE ulak.pauses
   SET resumed_by = $3, resumed_at = now(), released_to = now(), release_per_second = $4
 WHERE kind = $1 AND key = $2 AND resumed_at IS NULL
RETURNING id, kind, key, note, paused_by, paused_at;

-- name: list_pauses
-- In force, and those that are being released, oldest first, each with what waits under it.
SELECT p.id, p.kind, p.key, p.note, p.paused_by, p.paused_at, p.resumed_by, p.resumed_at, p.release_per_second,
       (SELECT count(*) FROM ulak.deferred d WHERE d.pause_id = p.id) AS waiting
  FROM ulak.pauses p
 WHERE p.ended_at IS NULL
 ORDER BY p.paused_at, p.id;

-- name: known_types
SELECT type FROM ulak.notification_types ORDER BY type;

-- name: known_templates
-- Versions of a template that were ever in use, the newest first.
SELECT channel, locale, version FROM ulak.templates
 WHERE type = $1 AND state <> 'draft' ORDER BY channel, locale, version DESC;

-- name: set_quota
-- What is not said (NULL) stays as it was.
INSERT INTO ulak.quotas AS q (account, scope, per_second, reserve_per_second, updated_by)
VALUES ($1, '', $2, $3, $4)
    ON CONFLICT (account, scope) DO UPDATE
   SET per_second = coalesce(excluded.per_second, q.per_second),
       reserve_per_second = coalesce(excluded.reserve_per_second, q.reserve_per_second),
       updated_by = excluded.updated_by, updated_at = now()
RETURNING per_second, reserve_per_second;

-- name: unset_quota
DELETE FROM ulak.quotas WHERE account = $1 AND scope = '' RETURNING per_second, reserve_per_second;

-- name: quotas_said
SELECT account, per_second, reserve_per_second, updated_by, updated_at FROM ulak.quotas WHERE scope = '' ORDER BY account;
