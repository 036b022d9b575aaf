-- What the scripts have in common that change who waits.
-- RESERVED: what the value of a lock begins with that is set aside   RESERVATION: for how long, in ms   CHANNEL: what the
-- channel begins with on which a client is woken   QUEUE_LIFE: how long a queue that nobody touches is kept, in ms
-- WAITERS_MAX: how many may wait   DEAD_MAX: how many that are gone are passed over at a time. All set in a line before this

-- Sets a free lock aside for the first waiter that listens, and wakes it: true, or false if there is none.
local function pass_on(lock, waiters, open)
    for _ = 1, DEAD_MAX do
        -- Whatever lies there that is no line must not keep the lock from anybody.
        local first = redis.pcall('ZPOPMIN', waiters)
        local ticket = first[1]
        if not ticket then
            return false
        end
        -- For this moment it belongs to those outside the line.
        if redis.call('EXISTS', open) == 1 then
            redis.call('ZADD', waiters, first[2], ticket)
            return false
        end
        local number, client = string.match(ticket, '^(%d+):(%x+)$')
        -- Who may not wake others leaves them to their own clocks.
        local heard = redis.pcall('PUBLISH', CHANNEL .. (client or ''), (number or '') .. ' ' .. lock)
        if type(heard) == 'table' then
            redis.call('ZADD', waiters, first[2], ticket)
            return false
        end
        if heard > 0 then
            redis.call('SET', lock, RESERVED .. ticket, 'PX', RESERVATION)
            return ticket
        end
    end
    return false
end

-- Puts a waiter in line, and leaves a mark beside the lock's fence, which whoever gets the lock looks at anyway. The mark
-- lives as long as the line does.
local function line_up(waiters, fence, ticket)
    if redis.call('ZCARD', waiters) < WAITERS_MAX then
        redis.call('ZADD', waiters, string.match(ticket, '^%d+'), ticket)
    end
    redis.call('PEXPIRE', waiters, QUEUE_LIFE)
    local last = redis.call('GET', fence)
    if not last then
        redis.call('SET', fence, '0+', 'PX', QUEUE_LIFE)
    elseif string.sub(last, -1) ~= '+' then
        redis.call('SET', fence, last .. '+', 'KEEPTTL')
    end
    redis.call('PEXPIRE', fence, QUEUE_LIFE, 'GT')
end

