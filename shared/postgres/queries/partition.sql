-- name: attached
-- Daily partitions that are attached, or half-way through a detach that was interrupted.
SELECT parent.relname AS parent, child.relname AS name, inherits.inhdetachpending AS detaching
  FROM pg_inherits AS inherits
  JOIN pg_class AS child ON child.oid = inherits.inhrelid
  JOIN pg_class AS parent ON parent.oid = inherits.inhparent
 WHERE parent.relnamespace = to_regnamespace('ulak') AND parent.relname = ANY($1::text[])

-- name: standing_alone
-- Tables with a partition's name that are not attached to anything.
SELECT EXISTS (
    SELECT FROM pg_class
     WHERE relnamespace = to_regnamespace('ulak') AND relname = $1 AND NOT relispartition)

-- name: left_over
-- Tables that a drop run detached and did not live to drop; an operator's own detached tables lack the mark.
SELECT relname AS name
  FROM pg_class
 WHERE relnamespace = to_regnamespace('ulak') AND relkind = 'r' AND NOT relispartition
   AND obj_description(oid, 'pg_class') = $1
 ORDER BY relname

-- name: blockers
-- What still points into the ids from $1 to below $2, by kind; an empty answer means that the day may go.
-- The deliveries' part reads one partition, and stops at the first row it finds.
SELECT 'deferred' AS kind WHERE EXISTS (
    SELECT FROM ulak.deferred WHERE notification_id >= $1 AND notification_id < $2)
UNION ALL
SELECT 'lease' WHERE EXISTS (
    SELECT FROM ulak.leases, unnest(notification_ids) AS leased(id) WHERE leased.id >= $1 AND leased.id < $2)
UNION ALL
SELECT 'unknown_open' WHERE EXISTS (
    SELECT FROM ulak.unknown_open WHERE notification_id >= $1 AND notification_id < $2)
UNION ALL
SELECT 'undecided notification' WHERE EXISTS (
    SELECT FROM ulak.notifications WHERE id >= $1 AND id < $2 AND state IN ('ACCEPTED', 'DEFERRED'))
UNION ALL
SELECT 'unsettled delivery' WHERE EXISTS (
    SELECT FROM ulak.deliveries
     WHERE notification_id >= $1 AND notification_id < $2 AND status IN ('PENDING', 'SENDING'))
