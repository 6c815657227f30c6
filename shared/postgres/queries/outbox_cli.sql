-- What `ulak outbox` reads and changes in the databases that services enqueue in. Counts end at a limit, and every
-- statement runs under a time-out: an operator who looks must not slow down what works.

-- name: waiting_events
-- Per class ($1), each count up to $2: due, and due later (a row whose key is missing rests).
SELECT class AS message_class,
       (SELECT count(*) FROM (SELECT FROM ulak.outbox
                               WHERE message_class = class AND available_at <= now() LIMIT $2) AS due) AS due,
       (SELECT count(*) FROM (SELECT FROM ulak.outbox
                               WHERE message_class = class AND available_at > now() AND available_at < 'infinity'
                               LIMIT $2) AS later) AS later,
       (SELECT extract(epoch FROM now() - available_at)::float8 FROM ulak.outbox
         WHERE message_class = class AND available_at <= now()
         ORDER BY available_at LIMIT 1) AS oldest_due_sec
  FROM unnest($1::smallint[]) AS class
 ORDER BY class;

-- name: set_aside_errors
-- Why rows wait for an operator: the $3 most frequent errors among at most $2 rows, with a sample; total is of all.
SELECT error, count(*) AS count, min(id::text)::uuid AS sample, (sum(count(*)) OVER ())::bigint AS total
  FROM (SELECT id, error FROM ulak.outbox
         WHERE message_class = ANY ($1::smallint[]) AND available_at = 'infinity' LIMIT $2) AS aside
 GROUP BY error
 ORDER BY count DESC, error
 LIMIT $3;

-- name: waiting_emails
-- Per model, each count up to $2. What is SENT is counted for the last day alone.
SELECT model,
       (SELECT count(*) FROM (SELECT FROM ulak.email_messages m
                               WHERE m.model = models.model AND status = 'PENDING' AND message_class = ANY ($1::smallint[])
                                 AND next_attempt_at <= now() LIMIT $2) AS due) AS due,
       (SELECT count(*) FROM (SELECT FROM ulak.email_messages m
                               WHERE m.model = models.model AND status = 'PENDING' AND message_class = ANY ($1::smallint[])
                                 AND next_attempt_at > now() LIMIT $2) AS later) AS later,
       (SELECT max(extract(epoch FROM now() - oldest.next_attempt_at))::float8
          FROM unnest($1::smallint[]) AS class
         CROSS JOIN LATERAL (SELECT next_attempt_at FROM ulak.email_messages m
                              WHERE m.model = models.model AND status = 'PENDING' AND message_class = class
                                AND next_attempt_at <= now()
                              ORDER BY next_attempt_at LIMIT 1) AS oldest) AS oldest_due_sec,
       sending.count AS sending, sending.oldest_sec AS oldest_sending_sec,
       (SELECT count(*) FROM (SELECT FROM ulak.email_messages m
                               WHERE m.model = models.model AND status = 'SENT' AND created_at >= now() - interval '1 day'
                               LIMIT $2) AS sent) AS sent_last_day
  FROM unnest(ARRAY['A', 'B']) AS models (model)
 CROSS JOIN LATERAL (
        SELECT count(*), extract(epoch FROM now() - min(locked_at))::float8 AS oldest_sec
          FROM (SELECT locked_at FROM ulak.email_messages m
                 WHERE m.model = models.model AND status = 'SENDING' LIMIT $2) AS taken) AS sending
 ORDER BY model;

-- name: ledger_email_ids
-- In Ulak's own database: e-mails without a row (`POST /emails`, model B) that are under way, or of the last day. Each of
-- both at most $1, in the order of their ids.
SELECT array_agg(notification_id ORDER BY notification_id) AS ids
  FROM ((SELECT notification_id FROM ulak.email_intakes WHERE source = '' AND settled_at IS NULL
          ORDER BY notification_id LIMIT $1)
        UNION ALL
        (SELECT notification_id FROM ulak.email_intakes
          WHERE source = '' AND settled_at IS NOT NULL AND created_at >= now() - interval '1 day'
          ORDER BY created_at LIMIT $1)) AS mails;

-- name: ledger_emails
-- What they came to, as `GET /emails/{id}` tells it: a mail is SENDING while any recipient's delivery is, PENDING while
-- any waits, SENT once all have it, else FAILED. $2 and $3 bound the ids. FAILED by error, as rows have it.
WITH mails AS (
    SELECT notification_id,
           CASE WHEN bool_or(status = 'SENDING') THEN 'SENDING' WHEN bool_or(status = 'PENDING') THEN 'PENDING'
                WHEN bool_and(status IN ('SENT', 'DELIVERED')) THEN 'SENT' ELSE 'FAILED' END AS status,
           min(next_attempt_at) FILTER (WHERE status = 'PENDING') AS due_at,
           min(updated_at) FILTER (WHERE status = 'SENDING') AS sending_since,
           min(coalesce(reason, lower(status)) || coalesce(': ' || last_error, ''))
               FILTER (WHERE status IN ('FAILED', 'SKIPPED', 'UNKNOWN')) AS error
      FROM ulak.deliveries
     WHERE notification_id = ANY ($1::uuid[]) AND notification_id BETWEEN $2 AND $3 AND channel = 'EMAIL'
     GROUP BY notification_id
), told AS (
    SELECT notification_id, status, status = 'PENDING' AND due_at <= now() AS due,
           CASE status WHEN 'PENDING' THEN due_at WHEN 'SENDING' THEN sending_since END AS since,
           CASE status WHEN 'FAILED' THEN error END AS error
      FROM mails
)
SELECT status, due, error, count(*) AS count, extract(epoch FROM now() - min(since))::float8 AS oldest_sec,
       (array_agg(notification_id ORDER BY notification_id DESC))[1] AS sample
  FROM told
 GROUP BY status, due, error
 ORDER BY count DESC, error;

-- name: failed_email_errors
-- Why e-mails FAILED: per model the $2 most frequent errors among the newest $1 rows, with the newest's id.
SELECT model, error, count, sample, total
  FROM (SELECT model, error_message AS error, count(*) AS count,
               (array_agg(id ORDER BY created_at DESC))[1] AS sample,
               (sum(count(*)) OVER (PARTITION BY model))::bigint AS total,
               row_number() OVER (PARTITION BY model ORDER BY count(*) DESC, error_message) AS place
          FROM (SELECT id, model, error_message, created_at FROM ulak.email_messages
                 WHERE status = 'FAILED' ORDER BY created_at DESC LIMIT $1) AS newest
         GROUP BY model, error_message) AS errors
 WHERE place <= $2
 ORDER BY model, place;

-- name: kept_published
SELECT count(*) AS count, min(published_at) AS oldest
  FROM (SELECT published_at FROM ulak.outbox_published ORDER BY published_at LIMIT $1) AS kept;

-- name: show_event
SELECT id, message_class, topic, key, payload, headers, available_at = 'infinity' AS set_aside,
       CASE WHEN available_at < 'infinity' THEN available_at END AS available_at, sequence, ordered, sealed, error
  FROM ulak.outbox
 WHERE id = $1;

-- name: show_published
-- There is no index by id: $2 and $3 bound when it may have been published. The newest, if it was published twice.
SELECT id, message_class, topic, key, payload, headers, sequence, ordered, sealed, published_at
  FROM ulak.outbox_published
 WHERE published_at BETWEEN $2 AND $3 AND id = $1
 ORDER BY published_at DESC
 LIMIT 1;

-- name: show_named_events
-- Rows that may be of the event with the id $1 ($2: its bytes): there is no index for it, so at most the $3 newest are
-- looked at. Whether it is its id, the reader finds out; of sealed ones all where $4, as only a key ring can tell.
SELECT id, message_class, topic, key, payload, headers, available_at = 'infinity' AS set_aside,
       CASE WHEN available_at < 'infinity' THEN available_at END AS available_at, sequence, ordered, sealed, error
  FROM (SELECT * FROM ulak.outbox ORDER BY id DESC LIMIT $3) AS newest
 WHERE headers ->> 'ce_id' = $1 OR CASE WHEN sealed THEN $4 ELSE position($2::bytea IN payload) > 0 END;

-- name: show_named_published
-- The same of what was published.
SELECT id, message_class, topic, key, payload, headers, sequence, ordered, sealed, published_at
  FROM (SELECT * FROM ulak.outbox_published ORDER BY published_at DESC LIMIT $3) AS newest
 WHERE headers ->> 'ce_id' = $1 OR CASE WHEN sealed THEN $4 ELSE position($2::bytea IN payload) > 0 END;

-- name: show_event_key
SELECT event_id, created_at FROM ulak.outbox_keys WHERE idempotency_key = $1;

-- name: show_email
-- By its id, or by the caller's key; either may be NULL.
SELECT id, model, status, message_class, template, type, locale, user_id, recipients, parameters IS NOT NULL AS has_content,
       sealed, attachments, idempotency_key, attempt_count, next_attempt_at, locked_at, lease_until, outcomes, provider,
       provider_message_id, error_message, notification_id, expires_at, created_at, sent_at
  FROM ulak.email_messages
 WHERE id = $1 OR idempotency_key = $2;

-- name: link_of_email
-- In Ulak's own database: what an e-mail without a row (`POST /emails`, model B) is in the ledger.
SELECT notification_id FROM ulak.email_intakes WHERE source_id = $1 AND source = '';

-- name: set_aside_events
-- A page in the order of the ids.
SELECT id, topic, error
  FROM ulak.outbox
 WHERE message_class = ANY ($1::smallint[]) AND available_at = 'infinity' AND id > $2
   AND ($3::text IS NULL OR position(lower($3) IN lower(error)) > 0)
 ORDER BY id
 LIMIT $4;

-- name: named_events
SELECT id, topic, error, available_at = 'infinity' AS set_aside FROM ulak.outbox WHERE id = ANY ($1::uuid[]);

-- name: requeue_events
-- Due at once. A row that is locked is another operator's.
UPDATE ulak.outbox
   SET available_at = now(), error = NULL
 WHERE id = ANY (ARRAY(
        SELECT id FROM ulak.outbox WHERE id = ANY ($1::uuid[]) AND available_at = 'infinity'
         ORDER BY id FOR UPDATE SKIP LOCKED))
RETURNING id;

-- name: close_event_letters
-- In Ulak's own database.
UPDATE ulak.dead_letters
   SET state = 'replayed', last_seen = now()
 WHERE topic = 'outbox' AND fingerprint = ANY ($1::bytea[]) AND state = 'open';

-- name: failed_emails
-- A page from $1 and $2 on, the oldest first.
SELECT id, model, status, template, type, error_message, notification_id, parameters IS NOT NULL AS has_content,
       expires_at, created_at
  FROM ulak.email_messages
 WHERE status = 'FAILED' AND (created_at, id) > ($1::timestamptz, $2::uuid)
   AND ($3::text IS NULL OR template = $3)
   AND ($4::text IS NULL OR position(lower($4) IN lower(error_message)) > 0)
 ORDER BY created_at, id
 LIMIT $5;

-- name: named_emails
SELECT id, model, status, template, type, error_message, notification_id, parameters IS NOT NULL AS has_content,
       expires_at, created_at
  FROM ulak.email_messages
 WHERE id = ANY ($1::uuid[]);

-- name: requeue_emails
-- FAILED -> PENDING for rows that are not in the ledger. outcomes stay: who has the mail is not sent it again. A row
-- that is locked is another operator's, or about to go with its retention.
UPDATE ulak.email_messages
   SET status = 'PENDING', attempt_count = 0, next_attempt_at = now(), error_message = NULL
 WHERE id = ANY (ARRAY(
        SELECT id FROM ulak.email_messages
         WHERE id = ANY ($1::uuid[]) AND status = 'FAILED' AND notification_id IS NULL AND parameters IS NOT NULL
         ORDER BY id FOR UPDATE SKIP LOCKED))
   AND status = 'FAILED'
RETURNING id;

-- name: lock_ledger_emails
-- Rows whose mail is in the ledger, locked before it is touched (shared/delivery/requeue.py).
SELECT id, notification_id FROM ulak.email_messages
 WHERE id = ANY ($1::uuid[]) AND status = 'FAILED' AND notification_id IS NOT NULL
 ORDER BY id
   FOR UPDATE SKIP LOCKED;

-- name: follow_ledger
-- FAILED -> SENDING: the write-back tells these rows their new end.
UPDATE ulak.email_messages
   SET status = 'SENDING', locked_at = now(), error_message = NULL
 WHERE id = ANY ($1::uuid[]) AND status = 'FAILED' AND notification_id = ANY ($2::uuid[])
RETURNING notification_id;

-- name: ledger_deliveries
-- What the ledger says of messages. $2 and $3 bound the ids.
SELECT d.notification_id, d.status, d.reason, d.expires_at, n.state,
       EXISTS (SELECT FROM ulak.contents c
                WHERE c.notification_id = d.notification_id AND c.notification_id BETWEEN $2 AND $3
                  AND c.channel = 'EMAIL' AND c.sealed IS NOT NULL) AS has_content
  FROM ulak.deliveries d
  JOIN ulak.notifications n ON n.id = d.notification_id AND n.id BETWEEN $2 AND $3
 WHERE d.notification_id = ANY ($1::uuid[]) AND d.notification_id BETWEEN $2 AND $3 AND d.channel = 'EMAIL';

-- name: unlinked_emails
-- In Ulak's own database: e-mails without a row, by the ids their callers were answered with.
SELECT source_id, notification_id FROM ulak.email_intakes WHERE source_id = ANY ($1::uuid[]) AND source = '';

-- name: published_page
-- A page of what was published from $1 and $2 on and before $3, the oldest first. payload only where it is asked for.
SELECT id, message_class, topic, headers, sealed, published_at, CASE WHEN $4::boolean THEN payload END AS payload
  FROM ulak.outbox_published
 WHERE (published_at, id) > ($1::timestamptz, $2::uuid) AND published_at < $3
 ORDER BY published_at, id
 LIMIT $5;

-- name: publish_again
-- Rows go back to where they were, under the same ids and in the same order; the relay keeps them again. Who takes the
-- row takes it alone: two at once bring back each row once. One that is in the outbox already stays there.
WITH taken AS (
    DELETE FROM ulak.outbox_published
     WHERE published_at BETWEEN $2 AND $3 AND id = ANY ($1::uuid[])
    RETURNING id, message_class, topic, key, payload, headers, sequence, ordered, sealed
)
INSERT INTO ulak.outbox (id, message_class, topic, key, payload, headers, sequence, ordered, sealed)
SELECT DISTINCT ON (id) id, message_class, topic, key, payload, headers, sequence, ordered, sealed
  FROM taken
 ORDER BY id
    ON CONFLICT (id) DO NOTHING
RETURNING id;
