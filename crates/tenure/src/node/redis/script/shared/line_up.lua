-- Puts a waiter in line, and leaves a mark behind the lock's fence, which whoever gets the lock
-- looks at anyway. The mark lives as long as the line does.
local function line_up(line, fence, ticket)
    if redis.call('ZCARD', line) < LIMIT.WAITERS_MAX then
        redis.call('ZADD', line, string.match(ticket, '^%d+'), ticket)
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

