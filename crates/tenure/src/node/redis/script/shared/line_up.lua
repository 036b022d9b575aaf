-- Puts a waiter in line, and leaves a mark behind the lock's fence, which whoever gets the lock
-- looks at anyway. The mark lives as long as the line does. Those who share the lock are listed
-- once more.
local function line_up(line, fence, ticket)
    if redis.call('ZCARD', line) < LIMIT.WAITERS_MAX then
        local number = string.match(ticket, '^%d+')
        if redis.call('ZADD', line, number, ticket) == 1 then
            -- What it said about itself may not be true any more. When it asks, it says it again.
            redis.pcall('HDEL', 'tenure~waiting:' .. string.sub(line, #'tenure~queue:' + 1), ticket)
        end
        if string.byte(ticket, -1) == 114 then
            local readers = 'tenure~readers:' .. string.sub(line, #'tenure~queue:' + 1)
            redis.call('ZADD', readers, number, ticket)
            redis.call('PEXPIRE', readers, LIMIT.LINE_RETENTION)
        end
    end
    redis.call('PEXPIRE', line, LIMIT.LINE_RETENTION)
    local last = redis.call('GET', fence)
    if not last then
        redis.call('SET', fence, '0+', 'PX', LIMIT.LINE_RETENTION)
    elseif string.sub(last, -1) ~= '+' then
        redis.call('SET', fence, last .. '+', 'KEEPTTL')
    end
    redis.call('PEXPIRE', fence, LIMIT.LINE_RETENTION, 'GT')
end

