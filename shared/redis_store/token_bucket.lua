-- Takes up to a number of tokens from one account's bucket. All time is Redis' own, so callers' clocks do not matter (R1).
-- KEYS[1] bucket: hash tokens, at (microseconds)   KEYS[2] drain of the account   KEYS[3] drain of the critical class
-- ARGV[1] rate per second   ARGV[2] capacity   ARGV[3] floor: what this caller must leave   ARGV[4] wanted   ARGV[5] 1: critical
-- Returns {granted, milliseconds until one more can be had}; wanted < 0 gives tokens back and grants 0.
local rate, capacity, floor, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local state = redis.call('HMGET', KEYS[1], 'tokens', 'at')
-- An unknown bucket starts empty: after Redis was emptied nothing is granted twice.
local tokens, at = tonumber(state[1]) or 0, tonumber(state[2]) or now
if now > at then
  tokens = math.min(capacity, tokens + (now - at) * rate / 1000000)
  at = now
end
local drained = redis.call('PTTL', ARGV[5] == '1' and KEYS[3] or KEYS[2])
local granted = 0
if wanted < 0 then
  tokens = math.min(capacity, tokens - wanted)
elseif drained <= 0 then
  granted = math.max(0, math.floor(math.min(wanted, tokens - floor)))
  tokens = tokens - granted
end
redis.call('HSET', KEYS[1], 'tokens', string.format('%.17g', tokens), 'at', string.format('%.0f', at))
redis.call('PEXPIRE', KEYS[1], 3600000)
local wait = math.max(0, math.ceil((floor + 1 - tokens) * 1000 / rate))
return {granted, math.max(wait, drained)}
