-- name: columns
-- Columns of sealed values in every table of ours that holds rows, partitions each by itself: its size in blocks, and
-- the statement that counts its values by header in the blocks from $1 to below $2 (as tids, so from block to block).
-- A column is sealed by its name, or by the boolean `sealed` of its row where producers may leave it clear.
-- A header is format, length and key id, at most 66 bytes (shared/core/sealing.py, Layout); only so much of a value is
-- read, also where it is stored out of line: encrypted bytes are never compressed there.
SELECT class.oid::regclass::text AS table, coalesce(root.relname, class.relname) || '.' || attribute.attname AS name,
       pg_relation_size(class.oid) / current_setting('block_size')::int AS blocks,
       format($statement$
           WITH heads AS (
               SELECT substr(%1$I, 1, 66) AS head FROM %2$s
                WHERE ctid >= $1 AND ctid < $2 AND %1$I IS NOT NULL AND %3$s)
           SELECT substr(head, 1, CASE WHEN octet_length(head) > 1 THEN 2 + get_byte(head, 1) ELSE 2 END) AS header,
                  count(*)
             FROM heads
            GROUP BY header
       $statement$, attribute.attname, class.oid::regclass,
       CASE WHEN flag.attname IS NULL THEN 'true' ELSE 'sealed' END) AS statement
  FROM pg_class AS class
  JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid AND attribute.attnum > 0
                                AND NOT attribute.attisdropped AND attribute.atttypid = 'bytea'::regtype
  LEFT JOIN pg_class AS root ON root.oid = pg_partition_root(class.oid)
  LEFT JOIN pg_attribute AS flag ON flag.attrelid = class.oid AND flag.attname = 'sealed'
                                AND flag.atttypid = 'boolean'::regtype
 WHERE class.relnamespace = to_regnamespace('ulak') AND class.relkind = 'r'
   AND (attribute.attname ~ '(^|_)sealed$'
        OR flag.attname IS NOT NULL AND attribute.attname IN ('payload', 'recipients', 'parameters'))
 ORDER BY name, class.relname

-- name: blocks
SELECT pg_relation_size($1::text::regclass) / current_setting('block_size')::int
