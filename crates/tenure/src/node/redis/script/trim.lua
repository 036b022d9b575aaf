-- Frees fences that have expired. The server does that by itself, but lets a third of them lie
-- about; looking at one is enough. When it has expired is for the server's own clock to say. Tells
-- how many were looked at and are left, and the largest fence of the last hundred names: a clock
-- that was set back shows there.
--
-- An entry is when a fence ends, a colon, and its key. Fences that were granted together have an
-- entry without a key, and their keys behind it.
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local seen, again = 0, {}
for _, entry in ipairs(redis.call('LRANGE', KEYS.fences, 0, ARGV.count - 1)) do
    local ends, key = string.match(entry, '^(%d+):(.*)$')
    if ends and ends * 1000 >= now then
        break
    end
    seen = seen + 1
    -- Raised since: it comes round again.
    key = key or entry
    ends = key ~= '' and redis.call('PEXPIRETIME', key) or 0
    if ends > 0 then
        again[#again + 1] = string.format('%.0f:', ends) .. key
    end
end
if seen > 0 then
    redis.call('LTRIM', KEYS.fences, seen, -1)
end
if #again > 0 then
    redis.call('RPUSH', KEYS.fences, unpack(again))
end
redis.call('PEXPIRE', KEYS.fences, 2 * ARGV.retention)
local latest = ''
for _, entry in ipairs(redis.call('LRANGE', KEYS.fences, -100, -1)) do
    local fence = redis.pcall('GET', string.match(entry, '^%d+:(.*)$') or entry)
    fence = type(fence) == 'string' and string.match(fence, '^[1-9]%d*')
    -- All have as many digits.
    if fence and fence > latest then
        latest = fence
    end
end
local left = redis.call('LLEN', KEYS.fences)
return {now, seen, left, latest}
