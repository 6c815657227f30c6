-- The ledger of consents: appended to, never changed. What stands is kept with the line that changes it.
-- Batches travel as arrays; rows are locked in key order, so that two batches cannot wait for each other in a circle.

-- name: append
-- Lines that are new: with a reference, the first of its source. $1 ids, $2 subjects, $3 channels, $4 purposes, $5 user
-- ids, $6 sealed addresses, $7 granted, $8 at, $9 sources, $10 wording versions, $11 sealed evidence, $12 recipient
-- kinds, $13 references, $14 who recorded them.
INSERT INTO ulak.consents (id, subject, channel, purpose, user_id, address_sealed, granted, at, source, wording_version,
                           evidence_sealed, recipient_kind, reference, recorded_by)
SELECT *
  FROM unnest($1::uuid[], $2::bytea[], $3::text[], $4::text[], $5::bigint[], $6::bytea[], $7::boolean[],
              $8::timestamptz[], $9::text[], $10::text[], $11::bytea[], $12::text[], $13::text[], $14::text[])
       AS l(id, subject, channel, purpose, user_id, address_sealed, granted, at, source, wording_version,
            evidence_sealed, recipient_kind, reference, recorded_by)
 ORDER BY source, reference, id
ON CONFLICT (source, reference) WHERE reference IS NOT NULL DO NOTHING
RETURNING id

-- name: stand
-- What new lines ($1 ids, $2 subjects, $3 channels, $4 purposes, $5 granted, $6 at, $7 sources) do to what stands: the
-- latest event wins, and a refusal wins a tie (shared/core/consent.py: outweighs). A change that the registry has a type
-- for ($8 channels) is due there, unless it came from there. Answers the ids of the lines that stand now.
WITH line AS MATERIALIZED (
    SELECT DISTINCT ON (subject, channel, purpose) *
      FROM unnest($1::uuid[], $2::bytea[], $3::text[], $4::text[], $5::boolean[], $6::timestamptz[], $7::text[])
           AS l(id, subject, channel, purpose, granted, at, source)
     ORDER BY subject, channel, purpose, at DESC, granted, id
), before AS MATERIALIZED (
    SELECT s.subject, s.channel, s.purpose, s.granted
      FROM line JOIN ulak.consent_states s USING (subject, channel, purpose)
     ORDER BY s.subject, s.channel, s.purpose
       FOR NO KEY UPDATE OF s
), stood AS (
    INSERT INTO ulak.consent_states AS s (subject, channel, purpose, granted, at, consent_id)
    SELECT line.subject, line.channel, line.purpose, line.granted, line.at, line.id
      FROM line LEFT JOIN before USING (subject, channel, purpose)
     ORDER BY line.subject, line.channel, line.purpose
    ON CONFLICT (subject, channel, purpose) DO UPDATE
       SET granted = excluded.granted, at = excluded.at, consent_id = excluded.consent_id
     WHERE (excluded.at, NOT excluded.granted) > (s.at, NOT s.granted)
    RETURNING subject, channel, purpose, granted, consent_id
), due AS (
    INSERT INTO ulak.iys_records (consent_id, state)
    SELECT stood.consent_id, 'PENDING'
      FROM stood JOIN line USING (subject, channel, purpose) LEFT JOIN before USING (subject, channel, purpose)
     WHERE purpose = 'MARKETING' AND channel = ANY($8::text[]) AND line.source <> 'IYS'
       AND before.granted IS DISTINCT FROM stood.granted
)
SELECT consent_id FROM stood

-- name: states
-- What stands of ($1 subjects, $2 channels, $3 purposes).
SELECT subject, channel, purpose, granted, at
  FROM unnest($1::bytea[], $2::text[], $3::text[]) AS g(subject, channel, purpose)
  JOIN ulak.consent_states s USING (subject, channel, purpose)

-- name: refused
-- Of marketing deliveries on one channel ($3), those that may not go now: positions from 1 and why. $1 whose consent it
-- takes (NULL: nobody known), $2 target keys, $4 whether a suppression counts.
SELECT g.position, CASE WHEN s.kept THEN 'suppressed' ELSE 'no_consent' END AS reason
  FROM unnest($1::bytea[], $2::bytea[], $4::boolean[]) WITH ORDINALITY AS g(subject, target_key, live, position)
  CROSS JOIN LATERAL (
        SELECT g.live AND EXISTS (
                   SELECT FROM ulak.suppressions s
                    WHERE s.channel = $3 AND s.address_key = g.target_key
                      AND (s.expires_at IS NULL OR s.expires_at > now())) AS kept) AS s
 WHERE s.kept
    OR NOT EXISTS (SELECT FROM ulak.consent_states c
                    WHERE c.subject = g.subject AND c.channel = $3 AND c.purpose = 'MARKETING' AND c.granted)

-- name: current
-- What stands of the subjects ($1) of one person.
SELECT subject, channel, purpose, granted, at
  FROM ulak.consent_states
 WHERE subject = ANY($1::bytea[])
 ORDER BY channel, purpose, subject

-- name: history
-- Lines of the subjects ($1), and those that the user ($2, NULL: nobody) gave about other addresses; the newest first,
-- before the line $3 (NULL: from the last one on).
SELECT c.id, c.channel, c.purpose, r.external_id, c.subject, c.address_sealed, c.granted, c.at, c.recorded_at, c.source,
       c.wording_version, c.evidence_sealed, c.recipient_kind, c.reference, c.recorded_by, i.state AS iys_state
  FROM ulak.consents c
  LEFT JOIN ulak.recipients r USING (user_id)
  LEFT JOIN ulak.iys_records i ON i.consent_id = c.id
 WHERE (c.subject = ANY($1::bytea[]) OR c.user_id = $2) AND ($3::uuid IS NULL OR c.id < $3)
 ORDER BY c.id DESC
 LIMIT $4

-- name: people
SELECT external_id, user_id, email_key, email_sealed, phone_key, phone_sealed
  FROM ulak.recipients WHERE external_id = ANY($1::text[])

-- name: enter_people
-- First sight creates a user.
INSERT INTO ulak.recipients (external_id)
SELECT external_id FROM unnest($1::text[]) AS g(external_id) ORDER BY external_id
ON CONFLICT (external_id) DO NOTHING

-- name: page
-- The ledger in the order of its ids, $2 lines after $1.
SELECT c.id, c.channel, c.purpose, r.external_id, c.subject, c.address_sealed, c.granted, c.at, c.recorded_at, c.source,
       c.wording_version, c.evidence_sealed, c.recipient_kind, c.reference, c.recorded_by, i.state AS iys_state
  FROM ulak.consents c
  LEFT JOIN ulak.recipients r USING (user_id)
  LEFT JOIN ulak.iys_records i ON i.consent_id = c.id
 WHERE c.id > $1
 ORDER BY c.id
 LIMIT $2
