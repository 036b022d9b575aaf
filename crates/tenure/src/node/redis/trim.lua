-- Frees fences that have expired. The server does that by itself, but lets a third of them lie about; looking at one is
-- enough. When it has expired is for the server's own clock to say.
-- KEYS: queue of fences by their end   ARGV: retention in ms, how many to look at
-- The node's time in microseconds, how many were looked at, how many are left, and the largest fence of the last hundred names
-- ('' for none): a clock that was set back shows there.
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local seen, again = 0, {}
for _, entry in ipairs(redis.call('LRANGE', KEYS[1], 0, ARGV[2] - 1)) do
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
    redis.call('LTRIM', KEYS[1], seen, -1)
end
if #again > 0 then
    redis.call('RPUSH', KEYS[1], unpack(again))
end
redis.call('PEXPIRE', KEYS[1], 2 * ARGV[1])
local latest = ''
for _, entry in ipairs(redis.call('LRANGE', KEYS[1], -100, -1)) do
    local key = string.match(entry, '^%d+:(.*)$')
    local fence = key and redis.pcall('GET', key)
    fence = type(fence) == 'string' and string.match(fence, '^[1-9]%d*')
    -- All have as many digits.
    if fence and fence > latest then
        latest = fence
    end
end
return {now, seen, redis.call('LLEN', KEYS[1]), latest}
