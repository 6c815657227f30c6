-- What must never be, looked for per day ($1 <= id < $2) so that each statement reads one partition of each table.
-- Every answer is (count, sample): how many rows, and at most five notification ids in order.
-- $3, where there is one, is the moment before which work counts as late.

-- name: delivery_without_notification
SELECT count(*) AS count, (array_agg(id ORDER BY id))[1:5] AS sample
  FROM (SELECT delivery.notification_id AS id
          FROM ulak.deliveries AS delivery
         WHERE delivery.notification_id >= $1 AND delivery.notification_id < $2
           AND NOT EXISTS (SELECT FROM ulak.notifications AS notification
                            WHERE notification.id = delivery.notification_id
                              AND notification.id >= $1 AND notification.id < $2)) AS found

-- name: content_without_notification
SELECT count(*) AS count, (array_agg(id ORDER BY id))[1:5] AS sample
  FROM (SELECT content.notification_id AS id
          FROM ulak.contents AS content
         WHERE content.notification_id >= $1 AND content.notification_id < $2
           AND NOT EXISTS (SELECT FROM ulak.notifications AS notification
                            WHERE notification.id = content.notification_id
                              AND notification.id >= $1 AND notification.id < $2)) AS found

-- name: log_without_notification
SELECT count(*) AS count, (array_agg(id ORDER BY id))[1:5] AS sample
  FROM (SELECT log.notification_id AS id
          FROM ulak.delivery_log AS log
         WHERE log.notification_id >= $1 AND log.notification_id < $2
           AND NOT EXISTS (SELECT FROM ulak.notifications AS notification
                            WHERE notification.id = log.notification_id
                              AND notification.id >= $1 AND notification.id < $2)) AS found

-- name: dedup_without_notification
-- Rows of notifications whose partition was dropped are no fault: only days that are still there are asked about.
-- Nor are those of e-mails of model A, which have a row of their own instead; one of model B has an intake beside it.
SELECT count(*) AS count, (array_agg(id ORDER BY id))[1:5] AS sample
  FROM (SELECT dedup.notification_id AS id
          FROM ulak.notification_dedup AS dedup
         WHERE dedup.notification_id >= $1 AND dedup.notification_id < $2
           AND (dedup.mapping <> ':email'
                OR EXISTS (SELECT FROM ulak.email_intakes AS intake
                            WHERE intake.notification_id = dedup.notification_id))
           AND NOT EXISTS (SELECT FROM ulak.notifications AS notification
                            WHERE notification.id = dedup.notification_id
                              AND notification.id >= $1 AND notification.id < $2)) AS found

-- name: decided_without_trace
-- Deciding leaves a delivery, or a verdict in the log, in the same transaction.
SELECT count(*) AS count, (array_agg(id ORDER BY id))[1:5] AS sample
  FROM (SELECT notification.id
          FROM ulak.notifications AS notification
         WHERE notification.id >= $1 AND notification.id < $2 AND notification.state = 'DECIDED'
           AND NOT EXISTS (SELECT FROM ulak.deliveries AS delivery
                            WHERE delivery.notification_id = notification.id
                              AND delivery.notification_id >= $1 AND delivery.notification_id < $2)
           AND NOT EXISTS (SELECT FROM ulak.delivery_log AS log
                            WHERE log.notification_id = notification.id
                              AND log.notification_id >= $1 AND log.notification_id < $2)) AS found

-- name: delivery_without_content
-- Campaigns render at send; everything else is stored before it may go out.
SELECT count(*) AS count, (array_agg(id ORDER BY id))[1:5] AS sample
  FROM (SELECT delivery.notification_id AS id
          FROM ulak.deliveries AS delivery
         WHERE delivery.notification_id >= $1 AND delivery.notification_id < $2
           AND delivery.status IN ('PENDING', 'SENDING') AND delivery.campaign_id IS NULL
           AND NOT EXISTS (SELECT FROM ulak.contents AS content
                            WHERE content.notification_id = delivery.notification_id
                              AND content.channel = delivery.channel
                              AND content.notification_id >= $1 AND content.notification_id < $2)) AS found

-- name: deferred_without_due_row
SELECT count(*) AS count, (array_agg(id ORDER BY id))[1:5] AS sample
  FROM (SELECT notification.id
          FROM ulak.notifications AS notification
         WHERE notification.id >= $1 AND notification.id < $2 AND notification.state = 'DEFERRED'
           AND NOT EXISTS (SELECT FROM ulak.deferred WHERE deferred.notification_id = notification.id)) AS found

-- name: decision_overdue
SELECT count(*) AS count, (array_agg(id ORDER BY id))[1:5] AS sample
  FROM ulak.notifications
 WHERE id >= $1 AND id < $2 AND state = 'ACCEPTED' AND greatest(created_at, send_at) < $3

-- name: hint_owed
-- PENDING long after it should have been attempted, or long past its end; what waits in `deferred` waits by intent.
SELECT count(*) AS count, (array_agg(id ORDER BY id))[1:5] AS sample
  FROM (SELECT delivery.notification_id AS id
          FROM ulak.deliveries AS delivery
         WHERE delivery.notification_id >= $1 AND delivery.notification_id < $2
           AND delivery.status = 'PENDING' AND least(delivery.next_attempt_at, delivery.expires_at) < $3
           AND NOT EXISTS (SELECT FROM ulak.deferred
                            WHERE deferred.notification_id = delivery.notification_id
                              AND deferred.channel IN ('', delivery.channel))) AS found

-- name: lease_overdue
SELECT count(*) AS count, (array_agg(notification_id ORDER BY notification_id))[1:5] AS sample
  FROM ulak.deliveries
 WHERE notification_id >= $1 AND notification_id < $2 AND status = 'SENDING' AND lease_until < $3
