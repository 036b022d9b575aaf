-- Sets the lock again for its owner if it is free and nobody with a larger fence was granted it
-- since, and writes behind the owner from when on it counts. Set, or still there: the node's time.
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local owner = name_of(owner_of(KEYS.lock))
if owner == ARGV.owner then
    return now
end
if GIVEN.shared and (not owner or owner == LIMIT.SHARED) or GIVEN.id and (not owner or owner == true) then
    local holds, healed = 'tenure~holds:{' .. KEYS.lock .. '}', 'tenure~healed:{' .. KEYS.lock .. '}'
    local group = 'tenure~group:{' .. KEYS.lock .. '}'
    local call, ms, ends, own_id = redis.call, math.floor(now / 1000), nil, GIVEN.id
    -- What is counted beyond our holds: Redisson's, under the same id.
    local theirs = 0
    if owner then
        local fence, id = nil, nil
        if own_id then
            fence, id = string.match(call('GET', group) or '', '^(%d*) (.*)$')
        end
        if id ~= (own_id or nil) or id and redis.pcall('HEXISTS', KEYS.lock, id) ~= 1 then
            return {now, call('PTTL', KEYS.lock)}
        end
        if own_id then
            local live = call('ZCOUNT', holds, ms, '+inf')
            theirs = tonumber(call('HGET', KEYS.lock, id)) or 0
            theirs = math.max(theirs - (live > 0 and call('ZCARD', holds) or 0), 0)
        end
        if call('ZREMRANGEBYSCORE', holds, '-inf', ms - 1) > 0 and own_id and call('ZCARD', holds) > 0 then
            call('HSET', KEYS.lock, id, call('ZCARD', holds) + theirs)
        end
        if call('ZSCORE', holds, ARGV.owner) then
            return now
        elseif fence and fence ~= ARGV.fence then
            return {now, call('PTTL', KEYS.lock)}
        end
    end
    if GIVEN.fence then
        local highest = tonumber(string.match(call('GET', KEYS.fence) or '0', '^%d+'))
        local reads = call('GET', 'tenure~reads:{' .. KEYS.lock .. '}')
        local top, alone, id = string.match(reads or '', '^(%d+)/(%d+)/?(.*)$')
        local is_own = top and tonumber(top) == highest and id == (own_id or '')
        if (is_own and tonumber(alone) or highest) > tonumber(ARGV.fence) then
            return {now}
        end
    end
    if not owner then
        call('DEL', holds, healed)
    end
    call('HSET', healed, ARGV.owner, string.format('%.0f', ms + ARGV.quarantine))
    call('ZADD', holds, ms + ARGV.ttl, ARGV.owner)
    ends = call('ZRANGE', holds, -1, -1, 'WITHSCORES')[2]
    if own_id then
        call('SET', group, ARGV.fence .. ' ' .. own_id, 'PXAT', ends + 1000)
        call('HSET', KEYS.lock, own_id, call('ZCARD', holds) + theirs)
        if theirs > 0 then
            call('PEXPIREAT', KEYS.lock, ends, 'GT')
        else
            call('PEXPIREAT', KEYS.lock, ends)
        end
    else
        call('SET', KEYS.lock, LIMIT.SHARED, 'PXAT', ends)
    end
    call('PEXPIREAT', holds, ends + 1000)
    call('PEXPIREAT', healed, ends + 1000)
    return now
end
if owner then
    local left = redis.call('PTTL', KEYS.lock)
    return {now, left}
end
local fence = GIVEN.fence and redis.call('GET', KEYS.fence)
if fence and tonumber(string.match(fence, '^%d+')) > tonumber(ARGV.fence) then
    return {now}
end
local from = string.format('%.0f', math.floor(now / 1000) + ARGV.quarantine)
redis.call('SET', KEYS.lock, ARGV.owner .. '~' .. from, 'PX', ARGV.ttl)
return now
