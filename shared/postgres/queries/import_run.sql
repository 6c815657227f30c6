-- Imports (shared/postgres/import_run.py): a run's counters change with the rows that they count, in one transaction.

-- name: start
INSERT INTO ulak.import_runs (id, kind, application_id, state, started_by) VALUES ($1, $2, $3, 'RUNNING', $4)

-- name: one
SELECT *, stream IS NOT NULL AND stream_until > now() AS streaming FROM ulak.import_runs WHERE id = $1

-- name: list
-- The newest first, before $1 (NULL: from the last one on), of a state ($2; NULL: of any), at most $3.
SELECT *, stream IS NOT NULL AND stream_until > now() AS streaming
  FROM ulak.import_runs
 WHERE ($1::uuid IS NULL OR id < $1) AND ($2::text IS NULL OR state = $2)
 ORDER BY id DESC
 LIMIT $3

-- name: claim
-- The run is this stream's ($2) for $4 seconds: if it goes on at this line ($3), and no other stream lives.
UPDATE ulak.import_runs
   SET stream = $2, stream_until = now() + $4::float8 * interval '1 second', updated_at = now()
 WHERE id = $1 AND state = 'RUNNING' AND lines = $3 - 1 AND (stream IS NULL OR stream_until <= now())
RETURNING id

-- name: renew
UPDATE ulak.import_runs
   SET stream_until = now() + $3::float8 * interval '1 second'
 WHERE id = $1 AND stream = $2 AND state = 'RUNNING'

-- name: release
UPDATE ulak.import_runs SET stream = NULL, stream_until = NULL WHERE id = $1 AND stream = $2

-- name: settle
-- One chunk of the stream that has the run; no row: it has it no longer.
UPDATE ulak.import_runs
   SET lines = lines + $3, accepted = accepted + $4, rejected = rejected + $5, updated_at = now()
 WHERE id = $1 AND stream = $2 AND state = 'RUNNING'
RETURNING id

-- name: add_errors
INSERT INTO ulak.import_errors (run_id, line, code, path, detail)
SELECT $1, line, code, path, detail
  FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[]) AS g(line, code, path, detail)

-- name: finish
UPDATE ulak.import_runs
   SET state = 'FINISHED', stream = NULL, stream_until = NULL, updated_at = now()
 WHERE id = $1 AND stream = $2 AND state = 'RUNNING'
RETURNING *, false AS streaming

-- name: abort
UPDATE ulak.import_runs
   SET state = 'ABORTED', stream = NULL, stream_until = NULL, updated_at = now()
 WHERE id = $1 AND state = 'RUNNING'
RETURNING *, false AS streaming

-- name: errors
-- Bad lines behind line $2, at most $3.
SELECT line, code, path, detail FROM ulak.import_errors WHERE run_id = $1 AND line > $2 ORDER BY line LIMIT $3
