-- What the registry of commercial messages (İYS) knows of ledger lines. Rows are shared between relays by SKIP LOCKED;
-- a claim is a lease: it moves next_attempt_at ahead, so that whoever dies leaves the row to be found.

-- name: claim
-- Rows in one state ($1) that are due: PENDING are told now, SUBMITTED are asked about. $2 at most, $3 lease in seconds.
-- An attempt is counted before it is made: after a kill nobody knows whether it was.
-- A line may lack its address (a withdrawal by link names a subject alone): an earlier line has it, or the recipient.
UPDATE ulak.iys_records r
   SET attempts = attempts + (r.state = 'PENDING')::int, next_attempt_at = now() + $3::float8 * interval '1 second',
       updated_at = now()
  FROM ulak.consents c
 WHERE r.consent_id = ANY (ARRAY(
        SELECT consent_id FROM ulak.iys_records
         WHERE state = $1 AND state IN ('PENDING', 'SUBMITTED') AND next_attempt_at <= now()
         ORDER BY next_attempt_at
         LIMIT $2
           FOR UPDATE SKIP LOCKED))
   AND r.state = $1 AND c.id = r.consent_id
RETURNING r.consent_id, r.attempts, r.request_id, r.sub_request_id, c.subject, c.channel, c.granted, c.at, c.source,
          c.recipient_kind, coalesce(
              c.address_sealed,
              (SELECT e.address_sealed FROM ulak.consents e
                WHERE e.subject = c.subject AND e.channel = c.channel AND e.address_sealed IS NOT NULL
                ORDER BY e.id DESC LIMIT 1),
              CASE c.channel
                  WHEN 'EMAIL' THEN (SELECT email_sealed FROM ulak.recipients WHERE email_key = c.subject LIMIT 1)
                  WHEN 'SMS' THEN (SELECT phone_sealed FROM ulak.recipients WHERE phone_key = c.subject LIMIT 1)
              END) AS address_sealed

-- name: finish
-- What became of claimed rows, each only in the state ($2) and attempt ($3) it was claimed in; $9 rest in seconds.
UPDATE ulak.iys_records r
   SET state = f.state, request_id = f.request_id, sub_request_id = f.sub_request_id, code = f.code, detail = f.detail,
       next_attempt_at = now() + f.rest_sec * interval '1 second', updated_at = now()
  FROM unnest($1::uuid[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
              $9::float8[])
       AS f(consent_id, was, attempts, state, request_id, sub_request_id, code, detail, rest_sec)
 WHERE r.consent_id = f.consent_id AND r.state = f.was AND r.attempts = f.attempts
RETURNING r.consent_id

-- name: cursor
SELECT after FROM ulak.iys_cursors WHERE brand = $1

-- name: move_cursor
-- Only from where it was read; false: another relay was first.
INSERT INTO ulak.iys_cursors AS c (brand, after) VALUES ($1, $3)
ON CONFLICT (brand) DO UPDATE SET after = excluded.after, updated_at = now() WHERE c.after = $2
RETURNING true

-- name: counts
SELECT state, count(*) AS records, min(updated_at) AS oldest FROM ulak.iys_records GROUP BY state ORDER BY state

-- name: refused
-- The latest of those that the registry refused. $1 at most.
SELECT r.consent_id, c.channel, c.granted, c.at, r.code, r.detail, r.attempts, r.updated_at
  FROM ulak.iys_records r JOIN ulak.consents c ON c.id = r.consent_id
 WHERE r.state = 'REJECTED'
 ORDER BY r.updated_at DESC, r.consent_id DESC
 LIMIT $1

-- name: retry
-- Refused ones in line again: these ($1), or all of a code ($2), or all (both NULL).
UPDATE ulak.iys_records
   SET state = 'PENDING', next_attempt_at = now(), updated_at = now()
 WHERE state = 'REJECTED' AND ($1::uuid[] IS NULL OR consent_id = ANY($1)) AND ($2::text IS NULL OR code = $2)
RETURNING consent_id
