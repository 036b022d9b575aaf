-- Gives back what a lost attempt may have set: deletes the lock if it is the owner's, as the
-- acquire set it, and gets in line again with a ticket. Nobody of ours is woken. Without the time,
-- which would cost as much again.
local owner = owner_of(KEYS.lock)
local id = owner == true and group_of(KEYS.lock)
if owner == LIMIT.SHARED or id then
    local left = stop_holding(KEYS.lock, ARGV.owner, true, id)
    if left == 0 then
        return OUTCOME.NOT_HELD
    end
    if left == 2 and id then
        -- Redisson, which saw it held, would wait for as long as it was to be.
        local tag = string.find(KEYS.lock, '{', 1, true) and KEYS.lock or '{' .. KEYS.lock .. '}'
        redis.pcall('PUBLISH', 'redisson_lock__channel:' .. tag, '0')
    end
elseif owner ~= ARGV.owner then
    return OUTCOME.NOT_HELD
else
    redis.call('DEL', KEYS.lock)
end
if GIVEN.ticket then
    line_up(KEYS.line, KEYS.fence, ARGV.ticket)
end
return OUTCOME.DONE
