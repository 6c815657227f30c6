-- E-mail requests that are kept to be rendered when they are sent; cleared by whoever ends their last recipient.

-- name: lock_requests
-- $1 ids, $2 smallest, $3 largest. Those that are kept. Two that end the last recipients of a message at once see each
-- other's: the second waits here, and what it reads next is what the first has committed.
SELECT notification_id FROM ulak.contents
 WHERE notification_id = ANY ($1::uuid[]) AND notification_id BETWEEN $2 AND $3 AND channel = 'EMAIL'
   AND purpose = 'email-v1' AND sealed IS NOT NULL
 ORDER BY notification_id
   FOR NO KEY UPDATE;

-- name: clear_requests
-- Of these, the ones of which nobody needs anything any more: everyone has it, or was refused for good. What failed by
-- something that can be repaired ($4) may be sent again and keeps it (data.md, Content).
UPDATE ulak.contents c SET sealed = NULL
 WHERE c.notification_id = ANY ($1::uuid[]) AND c.notification_id BETWEEN $2 AND $3 AND c.channel = 'EMAIL'
   AND c.purpose = 'email-v1' AND c.sealed IS NOT NULL
   AND NOT EXISTS (SELECT FROM ulak.deliveries d
                    WHERE d.notification_id = c.notification_id AND d.notification_id BETWEEN $2 AND $3
                      AND d.channel = 'EMAIL'
                      AND (d.status IN ('PENDING', 'SENDING')
                           OR d.status = 'UNKNOWN' AND d.reason IS DISTINCT FROM 'closed'
                           OR d.status = 'FAILED' AND d.reason = ANY ($4::text[])));
