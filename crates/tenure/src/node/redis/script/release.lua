-- Ends a lock if it is the owner's. Next is the first waiter that listens, whose ticket it tells;
-- or, if it opens and somebody is in line, those outside for a moment; or nobody, if it is kept.
-- The label is a key of this call only if there is one.
local owner, was_group, is_contested = owner_of(KEYS.lock), false, false
local id = owner == true and group_of(KEYS.lock)
if owner == LIMIT.SHARED or id then
    local left = stop_holding(KEYS.lock, ARGV.owner, false, id)
    if left == 0 then
        return OUTCOME.NOT_HELD
    end
    if KEYS.label and string.sub(redis.call('GET', KEYS.label) or '', 1, 40) == ARGV.owner then
        redis.call('DEL', KEYS.label)
    end
    if left == 1 then
        return OUTCOME.DONE
    end
    was_group = true
    if id then
        -- As Redisson does, and for those who wait there. Its name for the channel of a lock.
        local tag = string.find(KEYS.lock, '{', 1, true) and KEYS.lock or '{' .. KEYS.lock .. '}'
        local heard = redis.pcall('PUBLISH', 'redisson_lock__channel:' .. tag, '0')
        is_contested = type(heard) == 'number' and heard > 0
    end
elseif name_of(owner) ~= ARGV.owner and owner ~= LIMIT.KEPT .. ARGV.owner then
    return OUTCOME.NOT_HELD
elseif GIVEN.keeps then
    -- Nobody is to have it yet, and the label says who had it.
    redis.call('SET', KEYS.lock, LIMIT.KEPT .. ARGV.owner, 'KEEPTTL')
    redis.call('PEXPIRE', KEYS.lock, ARGV.keeps, 'LT')
    return OUTCOME.DONE
end
local opens, ticket = GIVEN.opens, nil
if not opens then
    -- Ahead of those who came later: where nobody is before us, it comes back to us. It is deleted
    -- first: a server whose memory is full lets nobody get in line, and that must not keep the
    -- lock.
    if GIVEN.ticket then
        redis.call('DEL', KEYS.lock)
        line_up(KEYS.line, KEYS.fence, ARGV.ticket)
    end
    ticket = pass_on(KEYS.lock, KEYS.line, KEYS.open, was_group and not id, is_contested)
end
if not ticket then
    redis.call('DEL', KEYS.lock)
end
if KEYS.label and not was_group then
    redis.call('DEL', KEYS.label)
end
if opens and redis.call('ZCARD', KEYS.line) > 0 then
    redis.call('SET', KEYS.open, 1, 'PX', LIMIT.OPENING)
    return OUTCOME.OPENED
end
return ticket or OUTCOME.DONE
