-- Nearly every lock that is released is its owner's, with nobody in line, or with somebody who
-- listens and wants it alone. It ends here, before the functions below: the server makes them for
-- each call, which costs as much as a few commands. What `pass_on` does, it does for that waiter.
if not ARGV[2] and redis.pcall('GET', KEYS.lock) == ARGV.owner then
    local first, heard = redis.pcall('ZPOPMIN', KEYS.line), nil
    local ticket = first[1]
    if ticket then
        local number, client = string.match(ticket, '^(%d+):(%x+)$')
        if client and redis.call('EXISTS', KEYS.open, 'tenure~readers:{' .. KEYS.lock .. '}') == 0 then
            heard = redis.pcall('PUBLISH', LIMIT.CHANNEL .. client, number .. ' ' .. KEYS.lock)
        end
        if type(heard) == 'number' and heard > 0 then
            redis.call('SET', KEYS.lock, LIMIT.RESERVED .. ticket, 'PX', LIMIT.RESERVATION)
        elseif heard ~= 0 then
            -- A server whose memory is full lets nobody get in line: that must not keep the lock.
            redis.pcall('ZADD', KEYS.line, first[2], ticket)
            redis.pcall('PEXPIRE', KEYS.line, LIMIT.LINE_RETENTION, 'NX')
        end
    else
        redis.call('DEL', KEYS.lock)
    end
    if not ticket or type(heard) == 'number' and heard > 0 then
        if KEYS.label then
            redis.call('DEL', KEYS.label)
        end
        return ticket or OUTCOME.DONE
    end
end

