-- Lengthens the life of each lock that is its owner's; never shortens it.
--
-- KEYS: locks   ARGV: for each lock its owner, with an r behind it if the lock is shared from now
-- on, with an o if it is reentrant, and node ttl in ms
--
-- All granted: the node's time in microseconds. Else that time, and for each lock: -1 if it was
-- lengthened, -2 if nobody has it, -3 if another has it without end, the time in ms for which
-- another has it, or the server's error; -3 less the time in ms for which it does not count yet, if
-- it was lengthened and had been put back.
local call = redis.call
local now = call('TIME')
now = now[1] * 1000000 + now[2]
local told
for i, lock in ipairs(KEYS) do
    -- What is wrong with one of them must not stop the script: the others are to be lengthened. A
    -- key of another kind is another's.
    local holder, owner, ttl = redis.pcall('GET', lock), ARGV[2 * i - 1], ARGV[2 * i]
    local left, from, is_ours = nil, false, holder == owner
    if is_ours then
        call('PEXPIRE', lock, ttl, 'GT')
    elseif string.byte(owner, 41) then
        local is_shared = string.byte(owner, 41) == 114
        local holds, healed = 'tenure~holds:{' .. lock .. '}', 'tenure~healed:{' .. lock .. '}'
        local ms, ends, group, id = math.floor(now / 1000), false, 'tenure~group:{' .. lock .. '}', nil
        -- What is counted beyond our holds: Redisson's, under the same id.
        local theirs = 0
        owner = string.sub(owner, 1, 40)
        if not is_shared and type(holder) == 'table' then
            -- Holds count only beside their owner in the lock: without it the key is another's.
            id = redis.pcall('GET', group)
            id = type(id) == 'string' and string.match(id, '^%d* (.*)$')
            id = id and redis.pcall('HEXISTS', lock, id) == 1 and id
        end
        if id or is_shared and holder == 'shared' then
            -- Whatever lies there that is no set of holds must not stop the script either.
            local live = redis.pcall('ZCOUNT', holds, ms, '+inf')
            left = type(live) == 'table' and live.err or nil
            if id and not left then
                theirs = tonumber(call('HGET', lock, id)) or 0
                theirs = math.max(theirs - (live > 0 and call('ZCARD', holds) or 0), 0)
            end
            if not left and call('ZREMRANGEBYSCORE', holds, '-inf', ms - 1) > 0 and id and live > 0 then
                call('HSET', lock, id, live + theirs)
            end
            ends = not left and call('ZSCORE', holds, owner)
            if not left and not ends then
                -- It may be put back beside the others.
                left = -2
            end
            from = ends and redis.pcall('HGET', healed, owner)
            if type(from) == 'table' then
                left, from, ends = from.err, false, false
            end
        elseif is_shared and type(holder) == 'string' and string.sub(holder, 1, 40) == owner then
            -- It was had alone until now.
            ends, from = call('PEXPIRETIME', lock), string.match(holder, '^~(%d+)$', 41)
            call('DEL', holds, healed)
        end
        is_ours = ends
        if is_ours then
            call('ZADD', holds, math.max(tonumber(ends), ms + ttl), owner)
            if from then
                call('HSET', healed, owner, from)
            end
            ends = call('ZRANGE', holds, -1, -1, 'WITHSCORES')[2]
            if id then
                call('HSET', lock, id, call('ZCARD', holds) + theirs)
                call('PEXPIREAT', group, ends + 1000)
            end
            if theirs > 0 then
                call('PEXPIREAT', lock, ends, 'GT')
            elseif id or holder == 'shared' then
                call('PEXPIREAT', lock, ends)
            else
                call('SET', lock, 'shared', 'PXAT', ends)
            end
            call('PEXPIREAT', holds, ends + 1000)
            call('PEXPIREAT', healed, ends + 1000)
        end
    elseif type(holder) == 'string' and string.sub(holder, 1, 41) == owner .. '~' then
        from = string.match(holder, '^%d+$', 42)
        is_ours = from
        if is_ours then
            call('PEXPIRE', lock, ttl, 'GT')
        end
    end
    if from then
        left = math.floor(now / 1000) - from
        left = left < 0 and left - 3 or nil
    elseif not is_ours and not left then
        left = holder and call('PTTL', lock) or -2
        if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
            left = holder.err
        end
        left = left == -1 and -3 or left
    end
    if left then
        told = told or {now}
        told[i + 1] = left
    end
end
if told then
    for i = 2, #KEYS + 1 do
        told[i] = told[i] or -1
    end
end
return told or now
