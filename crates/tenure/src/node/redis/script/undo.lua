-- Gives back what a lost attempt may have set: deletes the lock if it is the owner's, as the
-- acquire set it, and gets in line again with a ticket. Nobody is woken. Without the time, which
-- would cost as much again.
if owner_of(KEYS.lock) ~= ARGV.owner then
    return OUTCOME.NOT_HELD
end
redis.call('DEL', KEYS.lock)
if GIVEN.ticket then
    line_up(KEYS.line, KEYS.fence, ARGV.ticket)
end
return OUTCOME.DONE
