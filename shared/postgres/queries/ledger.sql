-- E-mail requests as ledger entries: facts about them, and their rows. Batches travel as arrays; rows are
-- locked and inserted in key order; bounds beside `= ANY` prune partitions at run time (docs/data.md).

-- name: enter_users
-- First sight creates a user.
INSERT INTO ulak.recipients (external_id)
SELECT external_id FROM unnest($1::text[]) AS g(external_id) ORDER BY external_id
ON CONFLICT (external_id) DO NOTHING

-- name: users
SELECT user_id, external_id, locale FROM ulak.recipients WHERE external_id = ANY($1::text[])

-- name: suppressed
-- unsolicited: for marketing alone.
SELECT address_key, bool_and(scope = 'MARKETING') AS unsolicited
  FROM ulak.suppressions
 WHERE channel = 'EMAIL' AND address_key = ANY($1::bytea[]) AND (expires_at IS NULL OR expires_at > now())
 GROUP BY address_key

-- name: consented
SELECT subject FROM ulak.consent_states
 WHERE subject = ANY($1::bytea[]) AND channel = 'EMAIL' AND purpose = 'MARKETING' AND granted

-- name: allow_lists
SELECT id, allow_list FROM ulak.api_keys WHERE id = ANY($1::uuid[])

-- name: take_up_intakes
-- Which of a source's rows are in the ledger already: a crash came before the row could say so. Their end is owed again.
UPDATE ulak.email_intakes
   SET settled_at = NULL
 WHERE source = $1 AND source_id = ANY($2::uuid[])
RETURNING source_id, notification_id

-- name: claim_keys
-- Answers the ids that are the first of their key; another transaction's claim is waited for.
INSERT INTO ulak.notification_dedup (application_id, key, mapping, notification_id, request_hmac, until)
SELECT *
  FROM unnest($1::int[], $2::text[], $3::text[], $4::uuid[], $5::bytea[], $6::timestamptz[])
       AS g(application_id, key, mapping, id, request_hmac, until)
 ORDER BY application_id, key, mapping
ON CONFLICT (application_id, key, mapping) DO NOTHING
RETURNING notification_id

-- name: key_holders
SELECT d.application_id, d.key, d.notification_id, d.request_hmac
  FROM unnest($1::int[], $2::text[], $3::text[]) AS g(application_id, key, mapping)
  JOIN ulak.notification_dedup d
    ON d.application_id = g.application_id AND d.key = g.key AND d.mapping = g.mapping

-- name: add_outbox
-- Relays are woken for what is due at once: nobody else publishes it. Who publishes by itself gives a later time, and
-- its commits do not queue for NOTIFY's lock.
WITH added AS (
    INSERT INTO ulak.outbox (id, message_class, topic, key, payload, headers, available_at)
    SELECT o.id, o.message_class, o.topic, o.key, o.payload, o.headers, $7
      FROM unnest($1::uuid[], $2::smallint[], $3::text[], $4::bytea[], $5::bytea[], $6::jsonb[])
           AS o(id, message_class, topic, key, payload, headers)
)
SELECT pg_notify('ulak_outbox', '') WHERE $7 <= clock_timestamp()
