-- The inbox (shared/postgres/inbox.py). Entries are locked before counters, counters in the order of their users.

-- name: add_entries
-- A redelivered decision adds nothing and counts nothing.
WITH added AS (
    INSERT INTO ulak.inbox (user_id, created_at, notification_id, type, content_sealed, locale)
    SELECT * FROM unnest($1::bigint[], $2::timestamptz[], $3::uuid[], $4::text[], $5::bytea[], $6::text[])
             AS g(user_id, created_at, notification_id, type, content_sealed, locale)
     ORDER BY user_id, notification_id
    ON CONFLICT DO NOTHING -- of whichever unique index sees it first: both hold for a redelivered entry
    RETURNING user_id
)
INSERT INTO ulak.inbox_counters AS c (user_id, unread)
SELECT user_id, count(*) FROM added GROUP BY user_id ORDER BY user_id
ON CONFLICT (user_id) DO UPDATE SET unread = c.unread + excluded.unread

-- name: page
-- $2 shelf; $3, $4 the position before which to read.
SELECT notification_id, created_at, type, content_sealed, locale, seen_at, read_at, archived_at
  FROM ulak.inbox
 WHERE user_id = $1
   AND (archived_at IS NOT NULL) = ($2 = 'archived')
   AND ($2 <> 'unread' OR read_at IS NULL)
   AND ($3::timestamptz IS NULL OR (created_at, notification_id) < ($3, $4::uuid))
 ORDER BY created_at DESC, notification_id DESC
 LIMIT $5

-- name: after
SELECT notification_id, created_at, type, content_sealed, locale, seen_at, read_at, archived_at
  FROM ulak.inbox
 WHERE user_id = $1 AND (created_at, notification_id) > ($2, $3::uuid)
 ORDER BY created_at, notification_id
 LIMIT $4

-- name: unread
SELECT unread FROM ulak.inbox_counters WHERE user_id = $1

-- name: change
-- The entry is locked first, so that what it was is what the counter is changed by. Answers whether there is one.
WITH was AS (
    SELECT user_id, created_at, notification_id, read_at IS NULL AND archived_at IS NULL AS unread
      FROM ulak.inbox
     WHERE user_id = $1 AND notification_id = $2
       FOR UPDATE
), changed AS (
    UPDATE ulak.inbox i
       SET seen_at = coalesce(i.seen_at, $4),
           read_at = CASE WHEN $3 = 'read' THEN coalesce(i.read_at, $4) ELSE i.read_at END,
           archived_at = CASE WHEN $3 = 'archived' THEN coalesce(i.archived_at, $4) ELSE i.archived_at END
      FROM was
     WHERE i.user_id = was.user_id AND i.created_at = was.created_at AND i.notification_id = was.notification_id
), counted AS (
    UPDATE ulak.inbox_counters c
       SET unread = c.unread - 1
      FROM was
     WHERE c.user_id = was.user_id AND was.unread AND $3 IN ('read', 'archived')
)
SELECT EXISTS (SELECT FROM was)

-- name: read_all
WITH was AS (
    SELECT user_id, created_at, notification_id
      FROM ulak.inbox
     WHERE user_id = $1 AND created_at <= $2 AND read_at IS NULL AND archived_at IS NULL
     ORDER BY created_at, notification_id
       FOR UPDATE
), changed AS (
    UPDATE ulak.inbox i
       SET read_at = $3, seen_at = coalesce(i.seen_at, $3)
      FROM was
     WHERE i.user_id = was.user_id AND i.created_at = was.created_at AND i.notification_id = was.notification_id
), counted AS (
    UPDATE ulak.inbox_counters c
       SET unread = c.unread - (SELECT count(*) FROM was)
     WHERE c.user_id = $1 AND EXISTS (SELECT FROM was)
)
SELECT count(*) FROM was

-- name: prune
-- Entries from before $1, at most $2 in one step; what was unread among them is not counted any more.
WITH old AS (
    SELECT user_id, created_at, notification_id, read_at IS NULL AND archived_at IS NULL AS unread
      FROM ulak.inbox
     WHERE created_at < $1
     ORDER BY created_at
     LIMIT $2
       FOR UPDATE SKIP LOCKED
), removed AS (
    DELETE FROM ulak.inbox i
     USING old
     WHERE i.user_id = old.user_id AND i.created_at = old.created_at AND i.notification_id = old.notification_id
), lost AS (
    SELECT user_id, count(*) AS unread FROM old WHERE unread GROUP BY user_id
), locked AS (
    SELECT c.user_id, lost.unread
      FROM ulak.inbox_counters c
      JOIN lost ON lost.user_id = c.user_id
     ORDER BY c.user_id
       FOR UPDATE OF c
), counted AS (
    UPDATE ulak.inbox_counters c SET unread = c.unread - locked.unread FROM locked WHERE c.user_id = locked.user_id
)
SELECT count(*) FROM old
