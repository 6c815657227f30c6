-- One account's breaker for all workers: shared/core/breaker.py once more, step by step; a test holds both together.
-- KEYS[1] state (JSON)
-- ARGV[1] now, milliseconds since 1970 ('': this server's clock)   ARGV[2..9] policy, in the order of its fields
-- ARGV[10] 'observe': ARGV[11] since   ARGV[12] detail   then mark, times of each run in turn (none: only read)
-- ARGV[10] 'allow':   ARGV[11] wanted  ARGV[12] 1: urgent
-- ARGV[10] 'retry'
-- Returns {state or '' where there is none, granted, phase before, phase after, reason}; no switch: both phases ''.
local now = tonumber(ARGV[1])
if not now then
  local clock = redis.call('TIME')
  now = clock[1] * 1000 + math.floor(clock[2] / 1000)
end
local in_row, window_ms, min_calls, percent = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local open_ms, probes, every_ms = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local SLOTS, KEEP_MS = 10, 86400000

local stored = redis.call('GET', KEYS[1])
local breaker = stored and cjson.decode(stored)
  or { phase = 'closed', since = 0, reason = '', failures = 0, window = {}, ['until'] = 0, probeAt = 0, wins = 0 }
local first, granted, changed = breaker, 0, false

local function into(phase, reason, until_ms, probe_at, wins)
  breaker = {
    phase = phase, since = math.max(now, breaker.since + 1), reason = reason, failures = 0, window = {},
    ['until'] = until_ms or 0, probeAt = probe_at or 0, wins = wins or 0,
  }
  changed = true
end

local function opened(what, detail)
  into('open', detail == '' and what or (what .. ', the last: ' .. detail), now + open_ms, now + every_ms)
end

local function won(times)
  local wins = breaker.wins + times
  if wins >= probes then
    into('closed', string.format('%d probes in a row worked', wins))
  elseif breaker.phase == 'open' then
    into('half_open', 'a probe worked', 0, now, wins)
  else
    breaker.wins, changed = wins, true
  end
end

local function counted(mark, times)
  local number, kept = math.floor(now * SLOTS / window_ms), {}
  for _, slot in ipairs(breaker.window) do
    if slot[1] > number - SLOTS then kept[#kept + 1] = slot end
  end
  if #kept == 0 or kept[#kept][1] < number then kept[#kept + 1] = { number, 0, 0, 0 } end
  local last = kept[#kept]
  last[2] = last[2] + times
  if mark == 'failed' then last[3] = last[3] + times end
  if mark == 'slow' then last[4] = last[4] + times end
  breaker.window, changed = kept, true
end

local function closed(mark, times, detail)
  if mark == 'refused' then return opened('the account is refused', detail) end
  if mark == 'ok' then breaker.failures = 0 end
  if mark == 'failed' then breaker.failures = breaker.failures + times end
  counted(mark, times)
  if breaker.failures >= in_row then
    return opened(string.format('%d failures in a row', breaker.failures), detail)
  end
  local calls, failed, slow = 0, 0, 0
  for _, slot in ipairs(breaker.window) do
    calls, failed, slow = calls + slot[2], failed + slot[3], slow + slot[4]
  end
  if calls < min_calls then return end
  for _, rate in ipairs({ { failed, 'failed' }, { slow, 'were slow' } }) do
    if rate[1] * 100 >= calls * percent then
      local what = '%d of %d calls %s within %d s'
      return opened(string.format(what, rate[1], calls, rate[2], math.floor(window_ms / 1000)), detail)
    end
  end
end

local function observe(mark, times, detail)
  if breaker.phase == 'closed' then
    closed(mark, times, detail)
  elseif mark == 'ok' then
    won(times)
  elseif breaker.phase == 'half_open' then
    opened(mark == 'slow' and 'a probe was slow' or 'a probe failed', detail)
  end
end

local function allow(wanted, urgent)
  if breaker.phase == 'closed' then
    granted = wanted
  elseif breaker.phase == 'open' and now >= breaker['until'] then
    into('half_open', string.format('tried again after %d s', math.floor(open_ms / 1000)), 0, now + every_ms)
    granted = math.min(wanted, probes)
  elseif now >= breaker.probeAt and (breaker.phase == 'half_open' or urgent) then
    granted = math.min(wanted, breaker.phase == 'half_open' and probes or 1)
    breaker.probeAt, changed = now + every_ms, true
  end
end

local function retry()
  if breaker.phase == 'open' and breaker['until'] > now then
    breaker['until'], changed = now, true
  end
end

local phase, since = first.phase, first.since
if ARGV[10] == 'retry' then
  retry()
elseif ARGV[10] == 'allow' then
  allow(tonumber(ARGV[11]), ARGV[12] == '1')
elseif tonumber(ARGV[11]) == since then
  for index = 13, #ARGV, 2 do
    observe(ARGV[index], tonumber(ARGV[index + 1]), ARGV[12])
    if breaker.since ~= since then break end
  end
end
if changed then
  stored = cjson.encode(breaker)
  redis.call('SET', KEYS[1], stored, 'PX', KEEP_MS)
end
if breaker.since == since then return { stored or '', granted, '', '', '' } end
return { stored, granted, phase, breaker.phase, breaker.reason }
