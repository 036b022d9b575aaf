-- Wakes a waiter: whether it heard that; nothing if we may not.
local function wake(lock, ticket)
    local number, client = string.match(ticket, '^(%d+):(%x+)[ro]?$')
    local heard = redis.pcall('PUBLISH', LIMIT.CHANNEL .. (client or ''), (number or '') .. ' ' .. lock)
    if type(heard) ~= 'table' then
        return heard > 0
    end
end

-- Puts a waiter back that was taken out of the line. If it was the only one, the line is new, and
-- would never be forgotten.
local function put_back(line, number, ticket)
    redis.call('ZADD', line, number, ticket)
    redis.call('PEXPIRE', line, LIMIT.LINE_RETENTION, 'NX')
end

-- Lets in those who share the lock and listen: it is set aside for all of them, unless it is shared
-- already. The first one's ticket, or false.
local function admit(lock, line, readers, is_free)
    local first = false
    local popped = redis.call('ZPOPMIN', readers, LIMIT.ADMITTED_MAX)
    for i = 1, #popped, 2 do
        local ticket = popped[i]
        redis.call('ZREM', line, ticket)
        if wake(lock, ticket) then
            first = first or ticket
        end
    end
    if first and is_free then
        redis.call('DEL', 'tenure~holds:{' .. lock .. '}', 'tenure~healed:{' .. lock .. '}')
        redis.call('SET', lock, LIMIT.SHARED, 'PX', LIMIT.RESERVATION)
    end
    return first
end

-- Sets a free lock aside for the next that listen, and wakes them: those who share it, unless the
-- one before did; then the first who does not. A ticket, or false if there is none. If clients of
-- another library were woken, too, it is not set aside but left to the fastest: them, and the one
-- of ours whose turn it is.
local function pass_on(lock, line, open, was_shared, is_contested)
    -- Whatever lies there that is no line must not keep the lock from anybody.
    local first = redis.pcall('ZPOPMIN', line)
    if not first[1] then
        return false
    end
    local readers = 'tenure~readers:{' .. lock .. '}'
    local others = redis.call('EXISTS', open, readers)
    if others > 0 then
        put_back(line, first[2], first[1])
        -- For this moment it belongs to those outside the line.
        if redis.call('EXISTS', open) == 1 then
            return false
        end
        local admitted = not was_shared and admit(lock, line, readers, true)
        if admitted then
            return admitted
        end
    end
    for _ = 1, LIMIT.DEAD_MAX do
        if others > 0 then
            first = {}
            -- Those who share it are passed over, as far as they are not very many.
            for from = 0, 15 do
                local page = redis.call('ZRANGE', line, 64 * from, 64 * from + 63)
                for _, ticket in ipairs(page) do
                    if string.byte(ticket, -1) ~= 114 then
                        first = {ticket, string.match(ticket, '^%d+')}
                        break
                    end
                end
                if first[1] or #page < 64 then
                    break
                end
            end
            if not first[1] then
                return was_shared and admit(lock, line, readers, true)
            end
            redis.call('ZREM', line, first[1])
        end
        local ticket = first[1]
        local heard = wake(lock, ticket)
        if heard and is_contested then
            put_back(line, first[2], ticket)
            redis.pcall('SET', 'tenure~turn:{' .. lock .. '}', ticket, 'PX', LIMIT.RESERVATION)
            return ticket
        elseif heard and string.byte(ticket, -1) == 111 then
            -- 111: an o, for an owner. A string would be an error for Redisson.
            redis.call('DEL', lock)
            redis.call('HSET', lock, LIMIT.RESERVED .. ticket, 1)
            redis.call('PEXPIRE', lock, LIMIT.RESERVATION)
            return ticket
        elseif heard then
            redis.call('SET', lock, LIMIT.RESERVED .. ticket, 'PX', LIMIT.RESERVATION)
            return ticket
        elseif heard == nil then
            -- Who may not wake others leaves them to their own clocks.
            put_back(line, first[2], ticket)
            return false
        end
        if others == 0 then
            first = redis.pcall('ZPOPMIN', line)
            if not first[1] then
                return false
            end
        end
    end
    return false
end

