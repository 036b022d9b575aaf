-- Frees fences that have expired. The server does that by itself, but lets a third of them lie
-- about; looking at one is enough. When it has expired is for the server's own clock to say. Tells
-- how many were looked at and are left, and the largest fence of the last hundred names: a clock
-- that was set back shows there.
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local seen, again = 0, {}
for _, entry in ipairs(redis.call('LRANGE', KEYS.fences, 0, ARGV.count - 1)) do
    local colon = string.find(entry, ':', 1, true)
    local ends = colon and tonumber(string.sub(entry, 1, colon - 1)) or 0
    if ends * 1000 >= now then
        break
    end
    seen = seen + 1
    -- Raised since: it comes round again.
    local key = colon and string.sub(entry, colon + 1)
    ends = key and redis.call('PEXPIRETIME', key) or 0
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
    local key = string.match(entry, '^%d+:(.*)$')
    local fence = key and redis.pcall('GET', key)
    fence = type(fence) == 'string' and string.match(fence, '^[1-9]%d*')
    -- All have as many digits.
    if fence and fence > latest then
        latest = fence
    end
end
local left = redis.call('LLEN', KEYS.fences)
return {now, seen, left, latest}
