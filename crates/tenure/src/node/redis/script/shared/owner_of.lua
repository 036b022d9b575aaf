-- Who has a lock: false if nobody, true if it is not even a lock but a key of another kind.
local function owner_of(lock)
    local owner = redis.pcall('GET', lock)
    if type(owner) == 'table' then
        if string.find(owner.err, 'WRONGTYPE', 1, true) then
            return true
        end
        error(owner)
    end
    return owner
end

