-- Sets a free lock aside for the first waiter that listens, and wakes it: its ticket, or false if
-- there is none.
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

