-- Everything that is kept for a name is one row: who has the lock, the last fence, the label, how
-- long the line lives.
CREATE TABLE names (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    -- 40 hexadecimal digits, with a tilde and from when on it counts if it was put back; or rsv:
    -- and the ticket of the waiter it is set aside for; or shared, and each who shares it behind a
    -- comma, with an at sign and the end of its hold; or owned, the fence, the owner's id and each
    -- of its holds likewise, behind spaces.
    owner TEXT,
    ends_ms INTEGER NOT NULL DEFAULT 0,
    fence INTEGER,
    fence_ends_ms INTEGER NOT NULL DEFAULT 0,
    -- Somebody may be in line. More than one: those in line are not given the lock up to this
    -- millisecond.
    queued INTEGER NOT NULL DEFAULT 0,
    label_owner TEXT,
    label TEXT,
    label_ends_ms INTEGER NOT NULL DEFAULT 0,
    line_ends_ms INTEGER NOT NULL DEFAULT 0,
    -- When nothing of this matters any more.
    forget_ms INTEGER NOT NULL DEFAULT 0,
    -- If the last fence is this one, of somebody who shared the lock: the last of one who did not.
    -- Or of an owner who may hold it again: which, and the last of another one.
    shared_fence INTEGER,
    alone_fence INTEGER,
    fence_owner TEXT
) STRICT;
CREATE INDEX names_by_end ON names (forget_ms);
CREATE TABLE waiters (
    name INTEGER NOT NULL,
    number INTEGER NOT NULL,
    client TEXT NOT NULL,
    -- What the waiter says about itself.
    note TEXT,
    PRIMARY KEY (name, number, client)
) STRICT, WITHOUT ROWID;
-- One row for each prefix about the life of the store's memory.
CREATE TABLE records (prefix BLOB PRIMARY KEY, text TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE clock (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    boot TEXT NOT NULL,
    base_us INTEGER NOT NULL,
    ceiling_us INTEGER NOT NULL
) STRICT;
-- Names this file among all files.
CREATE TABLE life (id INTEGER PRIMARY KEY CHECK (id = 1), name TEXT NOT NULL) STRICT;
