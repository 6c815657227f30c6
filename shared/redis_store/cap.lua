-- One user's day of one category and channel: the set of what was let through, never more than the limit (seed 003).
-- KEYS[1] the set   ARGV[1] limit   ARGV[2] when the set goes, milliseconds since 1970
-- ARGV[3] 1: a set that is not there is empty; 0: it may have been lost   ARGV[4] how many known members follow
-- then the known members (what PostgreSQL has; they count beyond the limit too), then those that ask.
-- Returns 1 or 0 for each that asks; one that is in already gets 1 again. {-1}: the set may have been lost, nothing done.
local limit, known = tonumber(ARGV[1]), tonumber(ARGV[4])
if ARGV[3] == '0' and redis.call('EXISTS', KEYS[1]) == 0 then
  return {-1}
end
for index = 5, 4 + known do
  redis.call('SADD', KEYS[1], ARGV[index])
end
local count = redis.call('SCARD', KEYS[1])
local answers = {}
for index = 5 + known, #ARGV do
  if redis.call('SISMEMBER', KEYS[1], ARGV[index]) == 1 then
    answers[#answers + 1] = 1
  elseif count < limit then
    redis.call('SADD', KEYS[1], ARGV[index])
    count = count + 1
    answers[#answers + 1] = 1
  else
    answers[#answers + 1] = 0
  end
end
redis.call('PEXPIREAT', KEYS[1], ARGV[2])
return answers
