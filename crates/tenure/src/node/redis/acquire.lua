-- Sets the lock if it is free, the node's record is the one that the client knows, and the fence is a new highest.
-- The fence is written first: there is no rollback.
-- KEYS: lock, record, fences   ARGV: owner, node ttl in ms, nonce, fence ('' for none), slack, half the retention in us
-- Granted: the node's time in microseconds. Else that time and why not:
--   1, time left in ms, lowest fence: held   2, lowest fence: fence too small   3: fence too large   4: another record
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
if redis.call('GETRANGE', KEYS[2], 0, 15) ~= ARGV[3] then
    return {now, 4}
end
local owner = redis.call('GET', KEYS[1])
if not owner then
    if ARGV[4] ~= '' then
        local fence = tonumber(ARGV[4])
        if fence > now + ARGV[5] then
            return {now, 3}
        end
        if fence <= now - ARGV[6] or redis.call('ZADD', KEYS[3], 'GT', 'CH', ARGV[4], KEYS[1]) == 0 then
            local last = redis.call('ZSCORE', KEYS[3], KEYS[1])
            return {now, 2, string.format('%.0f', math.max(tonumber(last or 0), now - ARGV[6]))}
        end
    end
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return now
end
local fence = ARGV[4] ~= '' and redis.call('ZSCORE', KEYS[3], KEYS[1])
-- Asked again, because the first answer was lost. With another fence it is not the same question.
if owner == ARGV[1] and (ARGV[4] == '' or fence and tonumber(fence) == tonumber(ARGV[4])) then
    return now
end
local lowest = ''
if ARGV[4] ~= '' then
    lowest = string.format('%.0f', math.max(tonumber(fence or 0), now - ARGV[6]))
end
return {now, 1, redis.call('PTTL', KEYS[1]), lowest}
