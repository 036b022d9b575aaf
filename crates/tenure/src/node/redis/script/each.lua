-- Does to each of several locks what `single`, the text of another script, does to one. What it
-- says of one that is refused it says for all; else whom the first of them was passed on to.
--
-- KEYS: those of the first lock, then those of the next   ARGV: of all of them
local said, refused
for first = 1, #KEYS, COUNT do
    local answer = single({unpack(KEYS, first, first + COUNT - 1)}, ARGV)
    local is_refused = type(answer) == 'table' or answer == OUTCOME.NOT_HELD
    if is_refused then
        refused = refused or answer
    elseif not said or type(said) ~= 'string' and said ~= OUTCOME.OPENED then
        said = answer
    end
end
return refused or said
