-- What the scripts have in common that compare owners.

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

-- Whose value it is: what was put back has behind its owner a '~' and the node's time in ms from which on
-- it counts.
local function name_of(value)
    return type(value) == 'string' and string.sub(value, 41, 41) == '~' and string.match(value, '^(%x+)~%d+$') or value
end

