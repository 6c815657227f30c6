-- `POST /internal/v1/emails` of model A, and what the reading calls need. Batches travel as arrays.

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

-- name: store_emails
INSERT INTO ulak.email_messages
       (id, model, message_class, template, type, locale, user_id, recipients, parameters, sealed, attachments,
        expires_at, created_at, application_id)
SELECT id, 'A', message_class, template, type, locale, user_id, recipients, parameters, true, attachments::jsonb,
       expires_at, created_at, application_id
  FROM unnest($1::uuid[], $2::smallint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::bytea[],
              $9::text[], $10::timestamptz[], $11::timestamptz[], $12::int[])
       AS g(id, message_class, template, type, locale, user_id, recipients, parameters, attachments, expires_at,
            created_at, application_id)

-- name: in_ledger
SELECT notification_id FROM ulak.email_intakes WHERE notification_id = ANY($1::uuid[])

-- name: table_email
-- A row of model A, if the caller's application ($2, NULL for every one) is whose it is.
SELECT id, status, message_class, template, type, recipients, sealed, attempt_count, next_attempt_at, outcomes, provider,
       error_message, expires_at, created_at, sent_at, locked_at
  FROM ulak.email_messages
 WHERE id = $1 AND model = 'A' AND ($2::int IS NULL OR application_id = $2)

-- name: ledger_email
-- The notification of an e-mail: of the API's by the same id, of a source's by its row's.
SELECT notification_id FROM ulak.email_intakes WHERE source_id = $1 ORDER BY created_at DESC LIMIT 1

-- name: email_content
SELECT sealed FROM ulak.contents
 WHERE notification_id = $1 AND channel = 'EMAIL' AND purpose = 'email-v1'
