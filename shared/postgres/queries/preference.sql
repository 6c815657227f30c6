-- What users said about categories and channels.

-- name: preferences
SELECT user_id, category, channel, type, enabled
  FROM ulak.user_preferences
 WHERE user_id = ANY($1::bigint[])
