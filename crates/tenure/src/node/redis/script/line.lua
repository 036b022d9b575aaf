-- What the scripts have in common that change who waits.

-- Sets a free lock aside for the first waiter that listens, and wakes it: its ticket, or false if there
-- is none.
local function pass_on(lock, line, open)
    for _ = 1, LIMIT.DEAD_MAX do
        -- Whatever lies there that is no line must not keep the lock from anybody.
        local first = redis.pcall('ZPOPMIN', line)
        local ticket = first[1]
        if not ticket then
            return false
        end
        -- For this moment it belongs to those outside the line.
        if redis.call('EXISTS', open) == 1 then
            redis.call('ZADD', line, first[2], ticket)
            return false
        end
        local number, client = string.match(ticket, '^(%d+):(%x+)$')
        -- Who may not wake others leaves them to their own clocks.
        local heard = redis.pcall('PUBLISH', LIMIT.CHANNEL .. (client or ''), (number or '') .. ' ' .. lock)
        if type(heard) == 'table' then
            redis.call('ZADD', line, first[2], ticket)
            return false
        end
        if heard > 0 then
            redis.call('SET', lock, LIMIT.RESERVED .. ticket, 'PX', LIMIT.RESERVATION)
            return ticket
        end
    end
    return false
end

-- Puts a waiter in line, and leaves a mark behind the lock's fence, which whoever gets the lock looks at
-- anyway. The mark lives as long as the line does.
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

