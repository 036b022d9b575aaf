-- Holds the lock for an owner that may hold it again: if it is free, the owner's already, or set
-- aside for this waiter. The lock is a hash, as Redisson has it: the owner's id, and how many holds
-- it has, with those that Redisson itself has under this id. Beside it are the holds as those of a
-- shared lock are; whose they are and which fence all of them have; and beside the last fence the
-- last one of another owner, as long as the two belong together.
local call, ticket, left = redis.call, GIVEN.ticket, nil
local holds, healed = 'tenure~holds:{' .. KEYS.lock .. '}', 'tenure~healed:{' .. KEYS.lock .. '}'
local group, reads = 'tenure~group:{' .. KEYS.lock .. '}', 'tenure~reads:{' .. KEYS.lock .. '}'
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local ms = math.floor(now_us / 1000)

-- 1. Nothing is granted in a life of the node's memory that the client does not know.
if GIVEN.looks_at_record and call('GETRANGE', KEYS.record, 0, 15) ~= ARGV.nonce then
    return {now_us, OUTCOME.STRANGER}
end

-- 2. Who has it, and whether that is in our way.
local kind, holder, joins, was_aside, theirs = call('TYPE', KEYS.lock).ok, false, false, false, 0
if kind == 'hash' then
    local fence, id = string.match(call('GET', group) or '', '^(%d*) (.*)$')
    local is_group = id and call('HEXISTS', KEYS.lock, id) == 1
    was_aside = ticket and call('HEXISTS', KEYS.lock, LIMIT.RESERVED .. ticket) == 1
    -- How long ago that was done.
    left = was_aside and LIMIT.RESERVATION - call('PTTL', KEYS.lock) or nil
    joins = is_group and id == ARGV.id and (fence ~= '') == (ARGV.fence ~= '')
    if joins then
        -- If all of ours have ended, what is counted may be Redisson's alone.
        local live = call('ZCOUNT', holds, ms, '+inf')
        theirs = tonumber(call('HGET', KEYS.lock, id)) or 0
        theirs = math.max(theirs - (live > 0 and call('ZCARD', holds) or 0), 0)
        if live > 0 and call('ZREMRANGEBYSCORE', holds, '-inf', ms - 1) > 0 then
            call('HSET', KEYS.lock, id, live + theirs)
        end
        call('ZREMRANGEBYSCORE', holds, '-inf', ms - 1)
        if call('ZSCORE', holds, ARGV.owner) then
            if call('HEXISTS', healed, ARGV.owner) == 0 then
                return now_us
            end
            -- What was put back is not what was asked for.
            ticket, holder = false, LIMIT.SHARED
        elseif fence ~= ARGV.fence then
            return {now_us, OUTCOME.REJOIN, fence}
        end
    elseif not was_aside and not is_group and call('HEXISTS', KEYS.lock, ARGV.id) == 1 then
        -- Redisson has it, and is the same owner.
        theirs = tonumber(call('HGET', KEYS.lock, ARGV.id)) or 0
    elseif not was_aside then
        -- What was written beside it is looked for among the holds, if it has any of ours.
        holder = is_group and LIMIT.SHARED or call('HSCAN', KEYS.lock, 0, 'COUNT', 1)[2][1]
    end
elseif kind ~= 'none' then
    return {now_us, OUTCOME.OTHER_KIND, kind}
else
    -- Clients of another library may race for it with the first of ours, and with no other: who has
    -- just released it would be faster than all who wait.
    local turn = call('GET', 'tenure~turn:{' .. KEYS.lock .. '}')
    if turn and turn ~= ticket then
        left, holder = call('PTTL', 'tenure~turn:{' .. KEYS.lock .. '}'), LIMIT.RESERVED
    elseif ticket then
        left = call('PTTL', KEYS.open)
        holder = left >= 0 and LIMIT.RESERVED
    end
end

-- 3. Promise the fence, unless it is the one that the owner's holds have.
if not holder then
    local fence, queued, next_ticket = tonumber(ARGV.fence), false, ''
    if joins then
        if ticket then
            call('ZREM', KEYS.line, ticket)
        end
    elseif fence then
        local last = call('GET', KEYS.fence)
        local highest = last and tonumber(string.match(last, '^%d+')) or 0
        local life = last and string.find(last, ARGV.life, 1, true)
        local top, other, id = string.match(call('GET', reads) or '', '^(%d+)/(%d+)/(.*)$')
        other = id == ARGV.id and tonumber(top) == highest and tonumber(other) or highest
        local outcome
        if fence > ms * 1000 + LIMIT.SLACK then
            outcome = OUTCOME.AHEAD
        elseif fence <= math.max(GIVEN.joins and other or highest, ms * 1000 - LIMIT.AGE) then
            outcome = OUTCOME.BEHIND
        elseif not life and not GIVEN.looks_at_record and GIVEN.nonce
            and call('GETRANGE', KEYS.record, 0, 15) ~= ARGV.nonce then
            outcome = OUTCOME.STRANGER
        end
        if outcome then
            if was_aside then
                call('PEXPIRE', KEYS.lock, LIMIT.RESERVATION)
            end
            if outcome ~= OUTCOME.BEHIND then
                return {now_us, outcome}
            end
            return {now_us, outcome, string.format('%.0f', math.max(highest, now_us - LIMIT.AGE))}
        end
        queued = last and string.byte(last, -1) == 43
        if was_aside then
            queued = true
        elseif ticket then
            call('ZREM', KEYS.line, ticket)
            next_ticket = call('ZRANGE', KEYS.line, 0, 0)[1]
            queued = next_ticket
        end
        local kept = fence > highest and ARGV.fence .. ARGV.life or string.gsub(last, '%+$', '')
        kept = kept .. (queued and '+' or '')
        if last then
            call('SET', KEYS.fence, kept, 'KEEPTTL')
            call('PEXPIREAT', KEYS.fence, ARGV.ends, 'GT')
        else
            call('SET', KEYS.fence, kept, 'PXAT', ARGV.ends)
        end
        if highest == 0 then
            call('RPUSH', KEYS.fences, ARGV.ends .. ':' .. KEYS.fence)
        end
        if queued then
            call('PEXPIRE', KEYS.fence, LIMIT.LINE_RETENTION, 'GT')
        end
        top = string.format('%.0f/%.0f/', math.max(highest, fence), other) .. ARGV.id
        -- As long as the fence, or longer: without it this means nothing.
        call('SET', reads, top, 'PXAT', string.format('%.0f', ARGV.ends + LIMIT.LINE_RETENTION))
    elseif ticket and not was_aside then
        call('ZREM', KEYS.line, ticket)
        next_ticket = call('ZRANGE', KEYS.line, 0, 0)[1]
        queued = next_ticket
    end

    -- 4. Hold it.
    if not joins then
        call('DEL', theirs == 0 and KEYS.lock or holds, holds, healed, 'tenure~turn:{' .. KEYS.lock .. '}')
        call('SET', group, ARGV.fence .. ' ' .. ARGV.id)
    end
    call('ZADD', holds, ms + ARGV.ttl, ARGV.owner)
    local last_end = call('ZRANGE', holds, -1, -1, 'WITHSCORES')[2]
    call('HSET', KEYS.lock, ARGV.id, call('ZCARD', holds) + theirs)
    if theirs > 0 then
        call('PEXPIREAT', KEYS.lock, last_end, 'GT')
    else
        call('PEXPIREAT', KEYS.lock, last_end)
    end
    call('PEXPIREAT', holds, last_end + 1000)
    call('PEXPIREAT', group, last_end + 1000)
    if GIVEN.label then
        call('SET', KEYS.label, ARGV.owner .. ' ' .. ARGV.label, 'PX', LIMIT.LABEL_RETENTION)
    end
    if was_aside then
        return {now_us, OUTCOME.CLAIMED, left}
    elseif joins or theirs > 0 or not queued then
        return now_us
    end
    return {now_us, OUTCOME.GRANTED, next_ticket}
end
