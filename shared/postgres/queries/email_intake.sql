-- Model B: a source's waiting rows go into the ledger, and what became of them goes back to their rows. Statements on
-- `email_messages` run in the source's database, all others in Ulak's own. Batches travel as arrays.

-- name: enter_application
-- A source's application exists from its first e-mail on, as one does from its first API key on.
INSERT INTO ulak.applications (name) VALUES ($1)
ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING id

-- name: claim_rows
-- One class's due rows, locked until the ledger has them: a kill lets them go as they were.
SELECT id, message_class, template, type, locale, user_id, recipients, parameters, sealed, attachments, attempt_count,
       outcomes, expires_at, created_at
  FROM ulak.email_messages
 WHERE model = 'B' AND status = 'PENDING' AND message_class = $1 AND next_attempt_at <= now()
 ORDER BY next_attempt_at
 LIMIT $2
   FOR UPDATE SKIP LOCKED

-- name: mark_rows
-- What the intake made of the rows it has locked: SENDING (in the ledger now, parameters and all), FAILED, or PENDING
-- and looked at again later. recipients and parameters come sealed, for rows that were in the clear until now.
UPDATE ulak.email_messages m
   SET status = r.status, notification_id = coalesce(r.notification_id, m.notification_id),
       locked_at = CASE WHEN r.status = 'SENDING' THEN now() END, error_message = r.error_message,
       next_attempt_at = coalesce(r.next_attempt_at, m.next_attempt_at),
       recipients = coalesce(r.recipients, m.recipients), sealed = m.sealed OR r.recipients IS NOT NULL,
       parameters = CASE WHEN r.cleared THEN NULL ELSE coalesce(r.parameters, m.parameters) END
  FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::timestamptz[], $6::bytea[], $7::bytea[], $8::boolean[])
       AS r(id, status, notification_id, error_message, next_attempt_at, recipients, parameters, cleared)
 WHERE m.id = r.id AND m.status = 'PENDING'

-- name: open_intakes
SELECT notification_id, source_id
  FROM ulak.email_intakes
 WHERE source = $1 AND settled_at IS NULL AND notification_id > $2
 ORDER BY notification_id
 LIMIT $3

-- name: waiting_among
-- Those of the messages that are not over yet. $2 and $3 bound the ids.
SELECT DISTINCT notification_id
  FROM ulak.deliveries
 WHERE notification_id = ANY($1::uuid[]) AND notification_id BETWEEN $2 AND $3
   AND channel = 'EMAIL' AND status IN ('PENDING', 'SENDING')

-- name: ended_deliveries
SELECT notification_id, target_key, status, reason, attempt, provider, provider_message_id, last_error, updated_at
  FROM ulak.deliveries
 WHERE notification_id = ANY($1::uuid[]) AND notification_id BETWEEN $2 AND $3 AND channel = 'EMAIL'

-- name: lock_rows
-- Whatever their status, so that an intake or a requeue that is about to change one is waited for.
SELECT id, status, notification_id, recipients, sealed
  FROM ulak.email_messages
 WHERE id = ANY($1::uuid[])
 ORDER BY id
   FOR UPDATE

-- name: end_rows
-- Answers those that were still waiting for this very notification's end.
UPDATE ulak.email_messages m
   SET status = r.status, outcomes = r.outcomes, error_message = r.error_message, attempt_count = r.attempt_count,
       provider = r.provider, provider_message_id = r.provider_message_id, sent_at = r.sent_at, parameters = NULL,
       locked_at = NULL
  FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::jsonb[], $5::text[], $6::int[], $7::text[], $8::text[],
              $9::timestamptz[])
       AS r(id, notification_id, status, outcomes, error_message, attempt_count, provider, provider_message_id, sent_at)
 WHERE m.id = r.id AND m.status = 'SENDING' AND m.notification_id = r.notification_id
RETURNING m.id

-- name: settle_intakes
UPDATE ulak.email_intakes SET settled_at = now() WHERE notification_id = ANY($1::uuid[]) AND settled_at IS NULL

-- name: old_intakes
-- Those behind $2 and $3 in a pass, the oldest first. Locked, so that nobody takes one up again while its files go.
SELECT notification_id, owned_files, created_at
  FROM ulak.email_intakes
 WHERE settled_at IS NOT NULL AND created_at < now() - $1::int * interval '1 day'
   AND (created_at, notification_id) > ($2::timestamptz, $3::uuid)
 ORDER BY created_at, notification_id
 LIMIT $4
   FOR UPDATE SKIP LOCKED

-- name: files_in_use
-- Those of the files ($1) that an intake beside $2, or a row of our own, names as well: they stay for it.
SELECT file
  FROM unnest($1::text[]) AS file
 WHERE EXISTS (SELECT FROM ulak.email_intakes i
                WHERE i.owned_files <> '{}' AND i.owned_files @> ARRAY[file] AND i.notification_id <> ALL ($2::uuid[]))
    OR EXISTS (SELECT FROM ulak.email_messages m
                WHERE m.attachments <> '[]' AND m.attachments @> jsonb_build_array(jsonb_build_object('storageRef', file)))

-- name: remove_intakes
DELETE FROM ulak.email_intakes WHERE notification_id = ANY($1::uuid[])
