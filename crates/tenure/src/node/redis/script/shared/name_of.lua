-- Whose value it is: what was put back has behind its owner a '~' and the node's time in ms from
-- which on it counts.
local function name_of(value)
    return type(value) == 'string' and string.sub(value, 41, 41) == '~' and string.match(value, '^(%x+)~%d+$') or value
end

