-- Model A: e-mail sent straight from a source's email_messages. Every change names the state and owner it expects.
-- Times are the source's own clock, so that relays need not agree on one; only next_attempt_at comes from the relay.

-- name: claim_email
-- PENDING -> SENDING for due rows of one class, oldest first. $3 is where reading starts: under a long transaction dead
-- entries pile up at the head of the index (O6). ARRAY is evaluated once, whatever the plan.
UPDATE ulak.email_messages
   SET status = 'SENDING', claim_id = $4, locked_at = now(), lease_until = now() + $5::float8 * interval '1 second'
 WHERE id = ANY (ARRAY(
        SELECT id FROM ulak.email_messages
         WHERE model = 'A' AND status = 'PENDING' AND message_class = $1
           AND next_attempt_at >= $3 AND next_attempt_at <= now()
         ORDER BY next_attempt_at
         LIMIT $2
           FOR UPDATE SKIP LOCKED))
   AND status = 'PENDING'
RETURNING id, message_class, template, type, locale, user_id, recipients, parameters, sealed, attachments, attempt_count,
          outcomes, expires_at, created_at, next_attempt_at;

-- name: record_email
-- What became of claimed rows; answers those that were still this claim's ($1). NULL leaves a column as it is.
-- recipients and parameters come sealed, for rows that were in the clear until now.
UPDATE ulak.email_messages m
   SET status = r.status, attempt_count = r.attempt_count, outcomes = r.outcomes,
       error_message = CASE WHEN r.status <> 'SENT' THEN coalesce(r.error_message, m.error_message) END,
       next_attempt_at = coalesce(r.next_attempt_at, m.next_attempt_at),
       message_class = coalesce(r.message_class, m.message_class),
       provider = coalesce(r.provider, m.provider),
       provider_message_id = coalesce(r.provider_message_id, m.provider_message_id),
       recipients = coalesce(r.recipients, m.recipients), sealed = m.sealed OR r.recipients IS NOT NULL,
       parameters = CASE WHEN r.cleared THEN NULL ELSE coalesce(r.parameters, m.parameters) END,
       sent_at = CASE WHEN r.status = 'SENT' THEN now() END,
       claim_id = NULL, locked_at = NULL, lease_until = NULL
  FROM unnest($2::uuid[], $3::text[], $4::int[], $5::jsonb[], $6::text[], $7::timestamptz[], $8::text[], $9::text[],
              $10::bytea[], $11::bytea[], $12::boolean[], $13::smallint[])
       AS r (id, status, attempt_count, outcomes, error_message, next_attempt_at, provider, provider_message_id,
             recipients, parameters, cleared, message_class)
 WHERE m.id = r.id AND m.status = 'SENDING' AND m.claim_id = $1
RETURNING m.id;

-- name: reap_email
-- SENDING whose lease ran out -> PENDING. The attempt may have been made, so it counts (ADR 0005); a row that has no
-- attempt left is failed by the next claim. A row that is locked is being recorded this very moment.
UPDATE ulak.email_messages
   SET status = 'PENDING', attempt_count = attempt_count + 1, next_attempt_at = now(), claim_id = NULL,
       locked_at = NULL, lease_until = NULL, error_message = 'the lease ran out: its relay died or stalled'
 WHERE id = ANY (ARRAY(
        SELECT id FROM ulak.email_messages
         WHERE model = 'A' AND status = 'SENDING' AND lease_until < now()
         ORDER BY lease_until
         LIMIT $1
           FOR UPDATE SKIP LOCKED))
   AND status = 'SENDING' AND lease_until < now()
RETURNING id;

-- name: oldest_email
-- Seconds the oldest due row of Model A has waited; NULL without one.
SELECT max(extract(epoch FROM now() - oldest.next_attempt_at))::float8 AS age_sec
  FROM unnest($1::smallint[]) AS class
  CROSS JOIN LATERAL (
        SELECT next_attempt_at FROM ulak.email_messages
         WHERE model = 'A' AND status = 'PENDING' AND message_class = class AND next_attempt_at <= now()
         ORDER BY next_attempt_at LIMIT 1) AS oldest;

-- name: email_facts
-- Of a batch, in Ulak's own database: users that are known ($1, the services' ids) with locale, time zone and
-- preferences, and of the addresses ($2, their keys) those that must not be written to, at all or in marketing
-- (unsolicited), and those whose consent to marketing stands.
WITH users AS (
    SELECT user_id, external_id, locale, time_zone FROM ulak.recipients WHERE external_id = ANY ($1::text[])
)
SELECT external_id, locale, time_zone, NULL AS category, NULL AS type, NULL::boolean AS enabled, NULL::bytea AS address_key,
       NULL AS word
  FROM users
UNION ALL
SELECT u.external_id, NULL, NULL, p.category, p.type, p.enabled, NULL, NULL
  FROM users u JOIN ulak.user_preferences p ON p.user_id = u.user_id AND p.channel = 'EMAIL'
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, s.address_key, CASE s.scope WHEN 'ALL' THEN 'suppressed' ELSE 'unsolicited' END
  FROM ulak.suppressions s
 WHERE s.channel = 'EMAIL' AND s.address_key = ANY ($2::bytea[]) AND (s.expires_at IS NULL OR s.expires_at > now())
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, c.subject, 'consented'
  FROM ulak.consent_states c
 WHERE c.channel = 'EMAIL' AND c.subject = ANY ($2::bytea[]) AND c.purpose = 'MARKETING' AND c.granted;

-- name: suppress_addresses
-- Until somebody removes it, even where a pause with an end was there before.
INSERT INTO ulak.suppressions AS s (channel, address_key, reason, source)
SELECT 'EMAIL', key, 'target_gone', 'bounce' FROM unnest($1::bytea[]) AS key ORDER BY key
ON CONFLICT (channel, address_key, scope) DO UPDATE
   SET reason = excluded.reason, source = excluded.source, expires_at = NULL
 WHERE s.expires_at IS NOT NULL;

-- name: old_email
-- Ended rows of more than $1 days, of either model, the oldest first and behind $2 and $3 in a pass. Locked, so that
-- nobody puts one in line again while its files go.
SELECT id, created_at, attachments FROM ulak.email_messages
 WHERE status IN ('SENT', 'FAILED') AND created_at < now() - $1::int * interval '1 day'
   AND (created_at, id) > ($2::timestamptz, $3::uuid)
 ORDER BY created_at, id
 LIMIT $4
   FOR UPDATE SKIP LOCKED;

-- name: shared_files
-- Those of the files ($1) that a row beside $2 names as well: they stay for it.
SELECT file FROM unnest($1::text[]) AS file
 WHERE EXISTS (SELECT FROM ulak.email_messages m
                WHERE m.attachments <> '[]' AND m.id <> ALL ($2::uuid[])
                  AND m.attachments @> jsonb_build_array(jsonb_build_object('storageRef', file)));

-- name: remove_email
DELETE FROM ulak.email_messages WHERE id = ANY ($1::uuid[]) AND status IN ('SENT', 'FAILED');

-- name: archive_email
WITH gone AS (
    DELETE FROM ulak.email_messages WHERE id = ANY ($1::uuid[]) AND status IN ('SENT', 'FAILED') RETURNING *
)
INSERT INTO ulak.email_messages_archive
       (id, model, status, message_class, template, type, locale, user_id, recipients, parameters, sealed, attachments,
        idempotency_key, attempt_count, next_attempt_at, locked_at, lease_until, claim_id, outcomes, provider,
        provider_message_id, error_message, notification_id, expires_at, created_at, sent_at)
SELECT id, model, status, message_class, template, type, locale, user_id, recipients, parameters, sealed, attachments,
       idempotency_key, attempt_count, next_attempt_at, locked_at, lease_until, claim_id, outcomes, provider,
       provider_message_id, error_message, notification_id, expires_at, created_at, sent_at
  FROM gone;

-- name: full_email
-- For an archive outside of the database. $1 ids, locked by `old_email`.
SELECT id, model, status, message_class, template, type, locale, user_id, recipients, parameters, sealed, attachments,
       idempotency_key, attempt_count, outcomes, provider, provider_message_id, error_message, notification_id,
       expires_at, created_at, sent_at
  FROM ulak.email_messages
 WHERE id = ANY ($1::uuid[])
 ORDER BY created_at, id;
