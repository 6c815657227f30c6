-- One caller's rate (generic cell rate algorithm, as in ATM's traffic contracts). All time is Redis' own (R1).
-- KEYS[1] the time (microseconds) at which the caller's debt is paid   ARGV[1] per second   ARGV[2] burst
-- Returns 0 if the request may go on, else the milliseconds after which to come again. An unknown caller owes nothing.
local interval, burst = 1000000 / tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local paid = math.max(now, tonumber(redis.call('GET', KEYS[1])) or now) + interval
local early = paid - burst * interval - now
if early > 0 then
  return math.ceil(early / 1000)
end
redis.call('SET', KEYS[1], string.format('%.0f', paid), 'PX', math.ceil((paid - now) / 1000))
return 0
