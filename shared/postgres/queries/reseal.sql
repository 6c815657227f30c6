-- name: statements
-- How a long-lived sealed column ($1 table, $2 column) is sealed anew; $3 is SQL for what its values are bound to. Rows
-- are found by the primary key, which is one column. `rows` is the planner's estimate, for progress alone.
-- read: the next $2 rows after the id $1, with the value where it is not under the active key (header $3), and with a
-- header $4 only where it is under that one. Rows without such a value come too: a step is bounded by what it looks at.
-- write: ids $1, values as read $2, values in their place $3, where the first still stand. Rows that somebody else
-- holds are passed over: whoever loads users locks rows in another order, and the two could wait in a circle.
-- write_one: the same for one row, waiting for whoever holds it; with no other lock held there is no circle.
SELECT greatest(class.reltuples, 0)::bigint AS rows,
       format($statement$
           SELECT %1$I AS id, coalesce(%2$s, '') AS row,
                  CASE WHEN substr(%3$I, 1, octet_length($3::bytea)) <> $3
                        AND ($4::bytea IS NULL OR substr(%3$I, 1, octet_length($4)) = $4) THEN %3$I END AS sealed
             FROM %4$s
            WHERE %1$I > $1
            ORDER BY %1$I
            LIMIT $2
       $statement$, id.attname, $3::text, $2::text, class.oid::regclass) AS read,
       format($statement$
           WITH given AS MATERIALIZED (
               SELECT * FROM unnest($1::%1$s[], $2::bytea[], $3::bytea[]) AS g(id, before, after)
           ), free AS MATERIALIZED (
               SELECT t.%2$I AS id
                 FROM %4$s AS t JOIN given ON given.id = t.%2$I AND given.before = t.%3$I
                ORDER BY t.%2$I
                  FOR NO KEY UPDATE OF t SKIP LOCKED
           )
           UPDATE %4$s AS t SET %3$I = given.after
             FROM free JOIN given USING (id)
            WHERE t.%2$I = free.id AND t.%3$I = given.before
           RETURNING t.%2$I AS id
       $statement$, format_type(id.atttypid, NULL), id.attname, $2::text, class.oid::regclass) AS write,
       format($statement$
           UPDATE %3$s SET %2$I = $3 WHERE %1$I = $1 AND %2$I = $2 RETURNING true
       $statement$, id.attname, $2::text, class.oid::regclass) AS write_one
  FROM pg_class AS class
  JOIN pg_index AS index ON index.indrelid = class.oid AND index.indisprimary
  JOIN pg_attribute AS id ON id.attrelid = class.oid AND id.attnum = index.indkey[0]
 WHERE class.oid = to_regclass('ulak.' || $1::text)
