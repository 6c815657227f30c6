-- Statements of services/me, which run as a role that can do this and no more (shared/postgres/role.py lists the grants).
-- Each is about one user, by the `sub` of a verified token or by the user_id found with it.

-- name: add_report
-- Of a notification that is the user's own; the first report of a kind stands. Answers whether there is one.
WITH own AS (
    SELECT id, user_id FROM ulak.notifications WHERE id = $1 AND user_id = $2
), added AS (
    INSERT INTO ulak.app_reports (notification_id, user_id, kind, at)
    SELECT id, user_id, $3, $4 FROM own
    ON CONFLICT (notification_id, user_id, kind) DO NOTHING
)
SELECT EXISTS (SELECT FROM own)

-- name: hold_subject
-- One word of a subject at a time, so that a link that is posted twice at once is one withdrawal.
SELECT pg_advisory_xact_lock(hashtextextended('ulak.consents ' || encode($1::bytea, 'hex'), 0))
