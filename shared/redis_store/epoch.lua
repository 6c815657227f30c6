-- Since when this Redis has kept what it was told: begun by whoever finds nothing, so a missing key tells of a loss.
-- KEYS[1] the moment, milliseconds since 1970 by this server's clock. Returns {that moment, now}.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local since = redis.call('GET', KEYS[1])
if not since then
  redis.call('SET', KEYS[1], string.format('%.0f', now))
  since = now
end
return {tonumber(since), now}
