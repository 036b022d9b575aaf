-- Takes a hold off a lock that is shared, or held by the owner with this id; unless it was put back
-- and that is kept: 0 if there is none, 1 if others are left, 2 if it was the last and the lock is
-- free. What is counted beyond our holds is another library's, under the same id: Redisson's, which
-- counts on from us. If all of ours have ended, all of it may be.
local function stop_holding(lock, owner, keeps_healed, id)
    local holds, healed = 'tenure~holds:{' .. lock .. '}', 'tenure~healed:{' .. lock .. '}'
    local time = redis.call('TIME')
    local ms = time[1] * 1000 + math.floor(time[2] / 1000)
    local theirs = 0
    if id then
        local live = redis.call('ZCOUNT', holds, ms, '+inf')
        theirs = (tonumber(redis.call('HGET', lock, id)) or 0) - (live > 0 and redis.call('ZCARD', holds) or 0)
        if live > 0 and redis.call('ZREMRANGEBYSCORE', holds, '-inf', ms - 1) > 0 then
            redis.call('HSET', lock, id, live + math.max(theirs, 0))
        end
    end
    redis.call('ZREMRANGEBYSCORE', holds, '-inf', ms - 1)
    if keeps_healed and redis.call('HEXISTS', healed, owner) == 1 or redis.call('ZREM', holds, owner) == 0 then
        return 0
    end
    redis.call('HDEL', healed, owner)
    local last_end = redis.call('ZRANGE', holds, -1, -1, 'WITHSCORES')[2]
    if last_end then
        if id then
            redis.call('HSET', lock, id, redis.call('ZCARD', holds) + math.max(theirs, 0))
        end
        if theirs > 0 then
            redis.call('PEXPIREAT', lock, last_end, 'GT')
        else
            redis.call('PEXPIREAT', lock, last_end)
        end
        return 1
    end
    if theirs > 0 then
        redis.call('HSET', lock, id, theirs)
        redis.call('DEL', holds, healed, 'tenure~group:{' .. lock .. '}')
        return 1
    end
    redis.call('DEL', lock, holds, healed, 'tenure~group:{' .. lock .. '}')
    return 2
end

